"""The errors of snapshots, rewinds and the folders they work on."""

from forkpoint.errors._base import ForkpointError


class WorkspaceEscape(ForkpointError):
    """A path leads out of the workspace, or through a link; nothing was written."""

    path: str
    problem: str

    code = "workspace.escape"
    kind = "data"
    says = "The path {path!r} {problem}; nothing was read from it and nothing was written"
    why = "Every path is checked to lie inside the workspace, without following links, before anything is written."
    fix = "Remove the link that stands in the way, or name paths below the workspace without '..'."


class WorkspaceRefused(ForkpointError):
    """A folder can't be a workspace; nothing was written."""

    root: str
    problem: str

    code = "workspace.refused"
    kind = "usage"
    says = "{root!r} can't be a workspace: {problem}; nothing was written"
    why = "A rewind deletes and overwrites files, so the folder must exist and belong to one project."
    fix = "Name the project's own folder, not '/', not a home folder, and not one inside the store."


class WorkspaceUnsupported(ForkpointError):
    """This system can't open files through folder handles; nothing was written."""

    system: str
    missing: str

    code = "workspace.unsupported"
    kind = "environment"
    says = "Workspaces are refused on {system}: {missing} is missing; nothing was written"
    why = "Without folder handles, a folder that is swapped for a link between check and write lets a write out."
    fix = "Run on Linux or macOS, or use a Workspace of your own that reaches the files another way."


class WorkspaceBadIgnore(ForkpointError):
    """The workspace's ignore file can't be read; no snapshot was taken."""

    path: str
    line: int
    problem: str

    code = "workspace.bad-ignore"
    kind = "data"
    says = "{path}, line {line}: {problem}; no snapshot was taken and nothing was written"
    why = "A file that may not be stored must never be stored because a rule could not be read."
    fix = "Correct the line, or remove the file if nothing is to be left out."


class WorkspaceBadChoice(ForkpointError):
    """What was asked of the workspace can't be meant; nothing was written."""

    problem: str

    code = "workspace.bad-choice"
    kind = "usage"
    says = "The workspace can't do that: {problem}; nothing was written"
    why = "A guess at what was meant could put the wrong files back, or give up the wrong turns."
    fix = "Correct what the message names."


class WorkspaceBusy(ForkpointError):
    """Another process is rewinding this workspace; nothing was written."""

    root: str

    code = "workspace.busy"
    kind = "conflict"
    says = "Another process is rewinding {root!r}; nothing was written"
    why = "One rewind at a time may write into a folder."
    fix = "Wait for the other one to end, then ask again."


class WorkspaceInUse(ForkpointError):
    """The run whose files were to be rewound is being performed; nothing was written."""

    run: str
    owner: str

    code = "workspace.in-use"
    kind = "conflict"
    says = "Run {run} is being performed by {owner}; its files were not rewound and nothing was written"
    why = "A tool that is at work and a rewind would write into each other's files."
    fix = "Wait until the run rests, or pause, interrupt or stop it, then rewind."


class WorkspaceUnreachable(ForkpointError):
    """A folder that a rewind must write into can't be opened; nothing was written."""

    path: str
    reason: str

    code = "workspace.unreachable"
    kind = "environment"
    says = "The folder {path!r} can't be opened: {reason}; nothing was written"
    why = "Every folder on the way is opened before anything is written."
    fix = "Give yourself access to the folder, or name paths= without it."


class WorkspaceFolderTaken(ForkpointError):
    """The folder for a copy exists and isn't empty; nothing was written."""

    path: str

    code = "workspace.folder-taken"
    kind = "conflict"
    says = "{path!r} exists and is not an empty folder; nothing was written"
    why = "A copy of a tree never mixes with files that are already there."
    fix = "Name a folder that does not exist yet."


class RewindUnfinished(ForkpointError):
    """A rewind of this workspace was cut off and waits to be finished; nothing was written."""

    root: str
    rewind_id: int
    state: str

    code = "workspace.rewind-unfinished"
    kind = "conflict"
    says = "Rewind {rewind_id} of {root!r} was cut off ({state}); nothing was written"
    why = "Until it is finished or rolled back the files are a mixture, and a snapshot of a mixture is a lie."
    fix = "Finish it with rewind --continue, or roll it back with rewind --abort."


class RewindCutShort(ForkpointError):
    """A rewind stopped in the middle; the files that were already put back are named."""

    path: str
    reason: str
    done: tuple[str, ...]
    rewind_id: int

    code = "workspace.rewind-cut-short"
    kind = "environment"
    says = "Rewind {rewind_id} stopped at {path!r}: {reason}; already put back: {done}"
    why = "The plan and the state before it are stored, so nothing is lost."
    fix = "Remove the cause, then rewind --continue; or roll back with rewind --abort."


class RewindAsks(ForkpointError):
    """A rewind would delete more than half of the files; nothing was written."""

    deletes: int
    files: int

    code = "workspace.rewind-asks"
    kind = "conflict"
    says = "The rewind would delete {deletes} of {files} files; nothing was written"
    why = "A plan that deletes more than half of the files is more often a mistake than a wish."
    fix = "Look at the dry run, then confirm with --yes, in Python with confirm_deletes=True."


class NothingUnfinished(ForkpointError):
    """No rewind waits to be continued or aborted; nothing was written."""

    root: str

    code = "workspace.nothing-unfinished"
    kind = "usage"
    says = "No rewind of {root!r} was cut off; nothing was written"
    why = "Only a rewind that was cut off can be continued or aborted."
    fix = "To go back before a finished rewind, undo it."


class NothingToUndo(ForkpointError):
    """No rewind of this workspace is on record; nothing was written."""

    root: str

    code = "workspace.nothing-to-undo"
    kind = "usage"
    says = "No rewind of {root!r} is on record; nothing was written"
    why = "Undo brings back the state that a rewind stored before it began."
    fix = "List the snapshots and rewind to one of them."


class SnapshotNotFound(ForkpointError):
    """No snapshot answers to this name; nothing was written."""

    wanted: str
    kept: str

    code = "snapshot.not-found"
    kind = "usage"
    says = "There is no snapshot {wanted}; kept are {kept}; nothing was written"
    why = "A rewind goes to a snapshot that was taken."
    fix = "List the snapshots and name one of them."


class SnapshotPruned(ForkpointError):
    """The snapshot was given up by retention; nothing was written."""

    wanted: str
    floor: int

    code = "snapshot.pruned"
    kind = "conflict"
    says = "Snapshot {wanted} was pruned, the oldest turn kept is {floor}; nothing was written"
    why = "Part of its bytes may be gone, and a rewind never does part of what it says."
    fix = "Rewind to a turn that is kept, and raise keep_turns if older ones are needed."


class SnapshotIncomplete(ForkpointError):
    """The folder could not be captured whole, so no snapshot was taken."""

    path: str
    reason: str

    code = "snapshot.incomplete"
    kind = "environment"
    says = "The capture stopped at {path!r}: {reason}; no snapshot was recorded"
    why = "A capture that is not whole is never a snapshot: a rewind to it would delete what it missed."
    fix = "Remove the cause (space, permissions, a file that never rests) and take the snapshot again."


class SnapshotCorrupt(ForkpointError):
    """Stored bytes of a snapshot are missing, changed or not allowed; nothing was written."""

    digest: str
    problem: str

    code = "snapshot.corrupt"
    kind = "data"
    says = "Stored content {digest} {problem}; nothing was written"
    why = "Content is named by its SHA-256 and every stored tree is checked whole before it is used."
    fix = "Restore the store's folder from a backup, or rewind to another snapshot."


class SnapshotStoreFull(ForkpointError):
    """The store of snapshots has reached its cap; no snapshot was recorded."""

    stored_bytes: int
    cap_bytes: int

    code = "snapshot.store-full"
    kind = "environment"
    says = "The store holds {stored_bytes} bytes and its cap is {cap_bytes}; no snapshot was recorded"
    why = "Snapshots never grow past the cap, and nothing is deleted unasked."
    fix = "Free what nothing needs any more with 'forkpoint prune --unused', or give ContentStore a larger cap_bytes."


class SnapshotStoreForeign(ForkpointError):
    """The store's database isn't ours, or is from a newer version; nothing was written."""

    path: str
    problem: str

    code = "snapshot.store-foreign"
    kind = "data"
    says = "{path!r} is not a store of snapshots that this version reads: {problem}; nothing was written"
    why = "A file of another program, or of a newer version, is never changed."
    fix = "Name another folder for the store, or update Forkpoint."


class SnapshotStoreFailed(ForkpointError):
    """The store's database refused an operation; what was not committed is not recorded."""

    path: str
    reason: str

    code = "snapshot.store-failed"
    kind = "environment"
    says = "The store {path!r} failed: {reason}; nothing of this operation was recorded"
    why = "The disk is full, the folder is read-only, or another process holds the database."
    fix = "Remove the cause and ask again; what was recorded before is intact."
