"""LangChain with its chat model for the Messages API, through the server to models of another vendor and of its own."""

from concurrent.futures import ThreadPoolExecutor

import anthropic
import pytest
from conftest import KEY, URL, hold_to_one_end
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel


class Report(BaseModel):
    """What the weather is like."""

    city: str
    rains: bool


@tool
def get_weather(place: str) -> str:
    """Tells the weather of a place."""
    return f"Rain in {place}."


def chat(model, key=KEY, **more):
    return ChatAnthropic(model=model, base_url=URL, api_key=key, max_tokens=2000, max_retries=0, **more)


def test_answers_whole_and_streamed_with_the_same_usage(model):
    whole = chat(model).invoke("Hi")
    streamed = None
    for chunk in chat(model).stream("Hi"):
        streamed = chunk if streamed is None else streamed + chunk
    assert whole.text == streamed.text == "You said: Hi"
    assert whole.usage_metadata["output_tokens"] > 0
    for count in ("input_tokens", "output_tokens", "total_tokens"):
        assert whole.usage_metadata[count] == streamed.usage_metadata[count]
    assert whole.response_metadata["stop_reason"] == "end_turn"


def test_goes_through_two_calls_of_a_tool(model):
    bound = chat(model).bind_tools([get_weather])
    question = HumanMessage("weather")
    first = bound.invoke([question])
    assert [call["args"] for call in first.tool_calls] == [{"place": "Rome"}, {"place": "Oslo"}]
    results = [get_weather.invoke(call) for call in first.tool_calls]
    assert all(isinstance(result, ToolMessage) for result in results)
    assert bound.invoke([question, first, *results]).text == "They said: Rain in Oslo."


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_answers_in_a_form(model, method):
    assert chat(model).with_structured_output(Report, method=method).invoke("report") == Report(city="Rome", rains=True)


def test_shows_its_thoughts_to_who_asked_for_them(model):
    answer = chat(model, thinking={"type": "enabled", "budget_tokens": 1024}).invoke("think")
    assert [block["type"] for block in answer.content_blocks] == ["reasoning", "text"]
    assert answer.content_blocks[0]["reasoning"] == "Let me see."


def test_sends_pictures(model):
    picture = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
    assert chat(model).invoke([HumanMessage([picture, {"type": "text", "text": "?"}])]).text == "You said: ?"


@pytest.mark.parametrize("how", ["invoke", "stream"])
@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("a wrong key", anthropic.AuthenticationError),
        ("an unknown model", anthropic.NotFoundError),
        ("fail with 529", anthropic.OverloadedError),
    ],
)
def test_raises_the_error_of_its_class(model, how, what, kind):
    this = chat("no:such" if what == "an unknown model" else model, "sk-wrong" if what == "a wrong key" else KEY)
    with pytest.raises(kind):
        this.invoke(what) if how == "invoke" else list(this.stream(what))


def test_is_never_given_half_an_answer_for_a_whole_one(model, broken_off):
    bound = chat(model).bind_tools([get_weather])

    def ended(words):
        whole = None
        try:
            for chunk in bound.stream(words):
                whole = chunk if whole is None else whole + chunk
        except anthropic.APIError as error:
            return error
        return whole.tool_calls[0]["args"] if whole.tool_calls else whole.text

    complete = {"place": "Rome"} if broken_off[0].startswith("cut the call") else "Rain in Rome, as ever."
    with ThreadPoolExecutor() as threads:
        hold_to_one_end(list(threads.map(ended, broken_off)), complete)
