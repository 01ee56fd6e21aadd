"""The vendor's SDK for Python, through the server to models of another vendor and of its own."""

import asyncio

import anthropic
import pytest
from conftest import KEY, URL, hold_to_one_end
from pydantic import BaseModel

client = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)

WEATHER = {
    "name": "get_weather",
    "description": "Tells the weather of a place.",
    "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}


class Report(BaseModel):
    city: str
    rains: bool


def asked(model, text, **more):
    return {"model": model, "max_tokens": 200, "messages": [{"role": "user", "content": text}], **more}


def test_answers_whole_and_streamed_with_the_same_usage(model):
    whole = client.messages.create(**asked(model, "Hi"))
    with client.messages.stream(**asked(model, "Hi")) as stream:
        pieces = list(stream.text_stream)
        streamed = stream.get_final_message()
    assert whole.content[0].text == "".join(pieces) == streamed.content[0].text == "You said: Hi"
    assert whole.stop_reason == streamed.stop_reason == "end_turn"
    assert (whole.model, whole._request_id[:4]) == (model, "req_")
    assert whole.usage.output_tokens > 0
    assert whole.usage.input_tokens == streamed.usage.input_tokens
    assert whole.usage.output_tokens == streamed.usage.output_tokens


def test_gives_each_event_its_type(model):
    events = [event.type for event in client.messages.create(**asked(model, "Hi", stream=True))]
    assert [type for type in dict.fromkeys(events) if type != "ping"] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_goes_through_two_calls_of_a_tool_by_hand(model):
    request = asked(model, "weather", tools=[WEATHER])
    with client.messages.stream(**request) as stream:
        first = stream.get_final_message()
    calls = [block for block in first.content if block.type == "tool_use"]
    assert first.stop_reason == "tool_use"
    assert [(call.name, call.input) for call in calls] == [
        ("get_weather", {"place": "Rome"}),
        ("get_weather", {"place": "Oslo"}),
    ]
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": f"Rain in {call.input['place']}."} for call in calls
    ]
    turns = [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    last = client.messages.create(**{**request, "messages": request["messages"] + turns})
    assert last.content[0].text == "They said: Rain in Oslo."


def test_runs_its_tools_by_itself(model):
    @anthropic.beta_tool
    def get_weather(place: str) -> str:
        """Tells the weather of a place."""
        return f"Rain in {place}."

    for stream in (False, True):
        runner = client.beta.messages.tool_runner(**asked(model, "weather"), tools=[get_weather], stream=stream)
        assert runner.until_done().content[0].text == "They said: Rain in Oslo."


def test_answers_in_a_form(model):
    parsed = client.messages.parse(**asked(model, "report"), output_format=Report)
    assert parsed.parsed_output == Report(city="Rome", rains=True)


def test_shows_its_thoughts_to_who_asked_for_them(model):
    thinking = {"type": "enabled", "budget_tokens": 1024}
    answer = client.messages.create(**{**asked(model, "think"), "max_tokens": 2000, "thinking": thinking})
    assert [block.type for block in answer.content] == ["thinking", "text"]
    assert answer.content[0].thinking == "Let me see."
    assert [block.type for block in client.messages.create(**asked(model, "think")).content][-1] == "text"


def test_sends_pictures_and_documents(model):
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    paper = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
    content = [{"type": "image", "source": source}, {"type": "document", "source": paper}, {"type": "text", "text": "?"}]
    assert client.messages.create(**asked(model, content)).content[0].text == "You said: ?"


def test_lists_models_and_counts_tokens(model):
    assert model in [one.id for one in client.models.list(limit=1)]
    assert client.models.retrieve(model).id == model
    request = {key: value for key, value in asked(model, "Hi", tools=[WEATHER]).items() if key != "max_tokens"}
    assert client.messages.count_tokens(**request).input_tokens > 10


def test_ends_where_the_tokens_end(model):
    assert client.messages.create(**asked(model, "much")).stop_reason == "max_tokens"


@pytest.mark.parametrize("how", ["create", "stream"])
@pytest.mark.parametrize(
    ("what", "kind", "type"),
    [
        ("a wrong key", anthropic.AuthenticationError, "authentication_error"),
        ("an unknown model", anthropic.NotFoundError, "not_found_error"),
        ("a bad request", anthropic.BadRequestError, "invalid_request_error"),
        ("fail with 529", anthropic.OverloadedError, "overloaded_error"),
        ("fail with 500", anthropic.InternalServerError, "api_error"),
    ],
)
def test_raises_the_error_of_its_class(model, how, what, kind, type):
    this = client.with_options(api_key="sk-wrong") if what == "a wrong key" else client
    request = asked("no:such" if what == "an unknown model" else model, what)
    if what == "a bad request":
        request["messages"] = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_9"}]}]
    with pytest.raises(kind) as raised:
        if how == "create":
            this.messages.create(**request)
        else:
            with this.messages.stream(**request) as stream:
                stream.until_done()
    assert raised.value.type == type
    assert raised.value.request_id.startswith("req_")


def test_is_never_given_half_an_answer_for_a_whole_one(model, broken_off):
    async def ended(words):
        try:
            async with asynchronous.messages.stream(**asked(model, words, tools=[WEATHER])) as stream:
                [block] = (await stream.get_final_message()).content
                return block.input if block.type == "tool_use" else block.text
        except anthropic.APIError as error:
            return error

    async def all_ends():
        return await asyncio.gather(*(ended(words) for words in broken_off))

    asynchronous = anthropic.AsyncAnthropic(base_url=URL, api_key=KEY, max_retries=0)
    complete = {"place": "Rome"} if broken_off[0].startswith("cut the call") else "Rain in Rome, as ever."
    errors = hold_to_one_end(asyncio.run(all_ends()), complete)
    assert all(isinstance(error, anthropic.APIStatusError) and error.type == "api_error" for error in errors)


def test_leaves_a_stream_when_it_wants(model):
    with client.messages.stream(**asked(model, "hang")) as stream:
        assert next(iter(stream.text_stream)) == "Ha"
