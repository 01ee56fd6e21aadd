"""What the tests of both clients have at hand: the server, its key, and a model of each kind."""

import os

import pytest

URL = os.environ["SERVICE_URL"]
KEY = os.environ["SERVICE_KEY"]


@pytest.fixture(params=["scripted:scripted-1", "vendor:vendor-1"], ids=["another vendor", "its own vendor"])
def model(request):
    return request.param


def pytest_generate_tests(metafunc):
    """After how many chunks the provider breaks off, and what it was saying."""
    if "broken_off" in metafunc.fixturenames:
        places = range(int(os.environ["CUT_PLACES"]))
        whats = ["cut the text", "end the text", "cut the call"]
        metafunc.parametrize("broken_off", [[f"{what} after {at}" for at in places] for what in whats], ids=whats)


def hold_to_one_end(ends, complete):
    """A stream that breaks off ends in an error; behind its last chunk there is nothing left to cut.

    An end is the error that the client has raised, or the answer that it took for complete.
    """
    broken = next((at for at, end in enumerate(ends) if not isinstance(end, Exception)), len(ends))
    assert broken > 5, ends
    assert all("cut its answer" in str(end) for end in ends[:broken]), ends
    assert ends[broken:] == [complete] * (len(ends) - broken)
    return ends[:broken]
