-- Version 1 of a Forkpoint store in SQLite.
--
-- A run is known outside by its text id and in here by its number: small, given out in the order in which
-- runs begin, so that "newest first" is a walk down the table.
--
-- commits    One row a commit, whatever the number of its events. Its id packs where it ends,
--            (run number << 32) | last seq, so that a run's commits lie side by side in order, a stretch of
--            them is one range, and no second index is written with every commit. The body comes last: what
--            can be answered from the columns before it does not read a long body's pages.
-- runs       Where each run stands: head and digest (an addition is refused unless it names both), the
--            lease, what the list of runs shows (summary, as JSON), and the columns that it is chosen by.
--            An addition rewrites one row here; it leaves the indexes alone as long as status, agent and due
--            stay as they were. A deleted run whose past is shared by forks stays, marked, without its end.
-- labels     A run's labels as rows, so that any text can be asked for as a bound value.
-- calls      Which effects asked for a provider's call id.
-- blobs      Bytes by their digest, once a store. refs says which run needs which, since which event;
--            a blob without a ref may be collected. Both are written in the transaction of the events that
--            refer to them, so that nothing is collected from under a writer.
-- checkpoints  Cached states, under the id of the commit that they stand after. Safe to delete.
--
-- Rows of commits and blobs are large, so their tables have rowids: without, SQLite keeps whole rows in inner
-- pages too, and the file grows several times over.
--
-- application_id in the file's header says that it is ours, user_version which of these scripts made it.

CREATE TABLE runs (
    number         INTEGER PRIMARY KEY,
    run            TEXT    NOT NULL UNIQUE,
    parent         INTEGER REFERENCES runs (number),
    at             INTEGER NOT NULL,
    started_at_ms  INTEGER NOT NULL,
    updated_at_ms  INTEGER NOT NULL,
    head           INTEGER NOT NULL,
    digest         BLOB    NOT NULL,
    epoch          INTEGER NOT NULL DEFAULT 0,
    owner          TEXT,
    lease_until_ms INTEGER NOT NULL DEFAULT 0,
    status         TEXT    NOT NULL,
    agent          TEXT    NOT NULL,
    due            INTEGER NOT NULL,
    deleted        INTEGER NOT NULL DEFAULT 0,
    summary        BLOB    NOT NULL
);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_owner ON runs (owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_by_status ON runs (status);
CREATE INDEX runs_by_agent ON runs (agent);
CREATE INDEX runs_by_due ON runs (due) WHERE due = 1;

CREATE TABLE labels (
    name  TEXT    NOT NULL,
    value TEXT    NOT NULL,
    run   INTEGER NOT NULL REFERENCES runs (number),
    PRIMARY KEY (name, value, run)
) WITHOUT ROWID;
CREATE INDEX labels_by_run ON labels (run);

CREATE TABLE commits (
    id    INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    kinds BLOB    NOT NULL,
    marks BLOB    NOT NULL,
    step  INTEGER NOT NULL,
    turn  INTEGER NOT NULL,
    body  BLOB    NOT NULL
);

CREATE TABLE calls (
    run    INTEGER NOT NULL REFERENCES runs (number),
    call   TEXT    NOT NULL,
    effect INTEGER NOT NULL,
    PRIMARY KEY (run, call, effect)
) WITHOUT ROWID;

CREATE TABLE blobs (
    number INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    body   BLOB NOT NULL
);

CREATE TABLE refs (
    run  INTEGER NOT NULL REFERENCES runs (number),
    blob INTEGER NOT NULL REFERENCES blobs (number),
    seq  INTEGER NOT NULL,
    PRIMARY KEY (run, blob)
) WITHOUT ROWID;

CREATE TABLE checkpoints (
    id     INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    body   BLOB NOT NULL
);
