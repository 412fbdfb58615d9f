"""Sessions name contenders and measures that there are, and everybody is measured somewhere."""

from bench.peers.contenders import CONTENDERS, IN_PROCESS, SESSIONS, THROUGH_HTTP
from bench.peers.measures import MEASURES


def test_every_name_is_that_of_a_contender() -> None:
    names = {contender.name for contender in CONTENDERS}
    assert len(names) == len(CONTENDERS)
    assert set(THROUGH_HTTP) <= {contender.name for contender in IN_PROCESS}
    assert all(set(session.names or ()) <= names for sessions in SESSIONS.values() for session in sessions)


def test_every_measure_is_taken_of_every_checkpoint() -> None:
    for sessions in SESSIONS.values():
        assert {measure for session in sessions for measure in session.measures} == set(MEASURES)


def test_a_single_stream_is_measured_in_every_form_of_every_checkpoint() -> None:
    everybody = {contender.name for contender in IN_PROCESS}
    for sessions in SESSIONS.values():
        decoding = [session for session in sessions if "decode" in session.measures]
        assert everybody <= {contender.name for session in decoding for contender in session.contenders()}
