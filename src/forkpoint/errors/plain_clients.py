"""Errors of providers' clients that a recorded function asks."""

from forkpoint.errors._base import ForkpointError


class ClientUnrecorded(ForkpointError):
    """A recorded function asked a model in a way that cannot be put on record."""

    code = "client.unrecorded"
    kind = "usage"
    says = "{what} was asked for as a raw response, which is not recorded; nothing was sent"
    why = "A raw response is the connection itself. It cannot be given again, so a restart would ask and pay again."
    fix = "Ask without with_raw_response and with_streaming_response, or ask from a function marked @fp.step."
    what: str


class StreamLeftOff(ForkpointError):
    """Code reads on in a recorded stream where it stopped reading when the record was made."""

    code = "stream.left-off"
    kind = "conflict"
    says = "The record of this stream (effect {effect}) ends here, where the code had stopped reading; nothing was sent"
    why = "What was not read was never said, and asking again would give another answer."
    fix = "Run the code that made the record, or fork from before the request."
    effect: int
