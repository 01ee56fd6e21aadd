"""What the fuzzer cannot invent: ids of real resources, and credentials that may be destroyed.

Half of the valid cases keep what the fuzzer made up, which mostly names nothing; the other half are pointed at
resources that were made for them. What an operation ends (a login, a key, a session, a run) is made for that one
call, so that the fuzzer never loses what it works with.
"""

import atexit
import base64
import hashlib
import hmac
import itertools
import json
import os
import re
import struct
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urljoin, urlsplit

import requests
import schemathesis
from schemathesis.core.failures import ServerError
from schemathesis.generation import GenerationMode
from schemathesis.openapi.checks import EnsureResourceAvailability, RejectedPositiveData

URL = os.environ["FUZZ_URL"]
KEY = os.environ["FUZZ_KEY"]
OWN_KEY_ID = os.environ["FUZZ_KEY_ID"]
OPERATOR_KEY = os.environ["FUZZ_OPERATOR_KEY"]
EMAIL = os.environ["FUZZ_EMAIL"]
PASSWORD = os.environ["FUZZ_PASSWORD"]
MODEL = os.environ["FUZZ_MODEL"]
GIT_URL = os.environ["FUZZ_GIT_URL"]
STATUSES_FILE = os.environ["FUZZ_STATUSES_FILE"]

# As schemathesis.toml has it for the cases.
TIMEOUT = 120

http = requests.Session()
statuses: dict[str, Counter] = defaultdict(Counter)
calls: Counter = Counter()
kept: dict[str, object] = {}
keeping = threading.RLock()
# No two things may get the same name.
numbers = itertools.count(1)


# Making what a case needs


def post(path, body, token=KEY, **options):
    response = http.post(URL + path, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT, **options)
    if response.status_code >= 400:
        raise requests.HTTPError(f"{response.status_code} for {path}: {response.text}", response=response)
    return response


def once(name, make):
    with keeping:
        if name not in kept:
            kept[name] = make()
        return kept[name]


def new_name(noun):
    return f"fuzz-{noun}-{next(numbers)}"


def new_email():
    return f"{new_name('person')}@example.com"


def log_in():
    return http.post(f"{URL}/api/v1/auth/login", json={"email": EMAIL, "password": PASSWORD}, timeout=TIMEOUT).json()


def new_session():
    return post("/api/v1/sessions", {"title": "Made for the fuzzer"}).json()["id"]


def new_key():
    return post("/api/v1/auth/api-keys", {"name": "Made for the fuzzer"}).json()["api_key"]["id"]


def new_person():
    body = {"email": new_email(), "organization_id": own_organization()}
    return post("/api/v1/users", body).json()["user"]["id"]


def own_organization():
    headers = {"Authorization": f"Bearer {KEY}"}
    me = once("me", lambda: http.get(f"{URL}/api/v1/users/me", headers=headers, timeout=TIMEOUT).json())
    return me["memberships"][0]["organization_id"]


def new_agent():
    body = {"slug": new_name("agent"), "description": "x", "instructions": "x"}
    return post("/api/v1/agents", body).json()["id"]


def finished_query():
    """A session with messages, and its run, which has ended."""
    return once("query", lambda: post("/api/v1/query", {"prompt": "Hello", "model": MODEL}).json())


def waiting_run(prompt, question, token=KEY):
    """Starts a run and leaves it where it asks a person; it goes on waiting although nobody listens."""
    with post("/api/v1/query/stream", {"prompt": prompt, "model": MODEL}, token, stream=True) as response:
        for line in response.iter_lines():
            if not line.startswith(b"data: "):
                continue
            data = json.loads(line[6:])
            if data.get("type") == question:
                return data["request"]
    raise RuntimeError(f"The run ended without {question}")


def register(**more):
    return new_account(**more)["access_token"]


def lasting_account():
    """A key of somebody new: their token would end before the fuzzer does."""
    return post("/api/v1/auth/api-keys", {"name": "Made for the fuzzer"}, register()).json()["key"]


def new_account(**more):
    body = {"email": new_email(), "password": PASSWORD, **more}
    return http.post(f"{URL}/api/v1/auth/register", json=body, timeout=TIMEOUT).json()


def new_organization():
    """Its path, and the tag to delete it with."""
    response = post("/api/v1/organizations", {"name": "Made for the fuzzer"})
    return response.json()["id"], response.headers["ETag"]


def team():
    """An organization that stays as it is."""
    return once("team", lambda: new_organization()[0])


def new_invitation(email=None):
    body = {"email": email or new_email()}
    return post(f"/api/v1/organizations/{team()}/invitations", body).json()


def new_member():
    email = new_email()
    return new_account(email=email, invitation_token=new_invitation(email)["token"])["user"]["id"]


def new_group():
    body = {"organization_id": team(), "name": new_name("group")}
    return post("/api/v1/groups", body).json()["id"]


def new_group_member():
    group_id, user_id = new_group(), once("member", new_member)
    headers = {"Authorization": f"Bearer {KEY}"}
    http.put(f"{URL}/api/v1/groups/{group_id}/members/{user_id}", headers=headers, timeout=TIMEOUT).raise_for_status()
    return {"group_id": group_id, "user_id": user_id}


def enrolled_account():
    token = register()
    return token, post("/api/v1/auth/mfa/enroll", {"password": PASSWORD}, token).json()["secret"]


def code_now(secret):
    """What an authenticator app shows (RFC 6238)."""
    digest = hmac.new(base64.b32decode(secret), struct.pack(">Q", int(time.time()) // 30), hashlib.sha1).digest()
    at = digest[19] & 0xF
    return f"{(struct.unpack('>I', digest[at:at + 4])[0] & 0x7FFFFFFF) % 1_000_000:06d}"


def run_asking_permission(token):
    # A new file each time: one that the session has not read may not be written over, and nobody is asked.
    arguments = json.dumps({"file_path": f"{new_name('file')}.txt", "content": "x"})
    return waiting_run(f"use tool write with {arguments}", "permission_requested", token)


def run_asking_a_question():
    questions = [{"id": "colour", "type": "free_text", "text": "Which colour?"}]
    return waiting_run(f"use tool ask_user with {json.dumps({'questions': questions})}", "prompt_requested")


# Pointing cases at it


def point_at_session(case):
    case.path_parameters["session_id"] = finished_query()["session_id"]


def new_prompt():
    """A session of its own with a prompt and its answer, and the id of the prompt."""
    session_id = post("/api/v1/query", {"prompt": "Hello", "model": MODEL}).json()["session_id"]
    headers = {"Authorization": f"Bearer {KEY}"}
    found = http.get(f"{URL}/api/v1/sessions/{session_id}/messages", headers=headers, timeout=TIMEOUT)
    return session_id, found.json()["data"][0]["id"]


def point_at_prompt(case):
    session_id, message_id = new_prompt()
    case.path_parameters.update(session_id=session_id, message_id=message_id)


def go_back_to_prompt(case):
    session_id, message_id = new_prompt()
    case.path_parameters["session_id"] = session_id
    case.body = {**case.body, "to_message_id": message_id}


def fork_at_prompt(case):
    session_id, message_id = new_prompt()
    case.path_parameters["session_id"] = session_id
    if "at_message_id" in case.body:
        case.body = {**case.body, "at_message_id": message_id}


def sum_up_new_conversation(case):
    """One of its own: while it is summed up, others would find it busy."""
    case.path_parameters["session_id"] = new_prompt()[0]
    if isinstance(case.body, dict):
        name_real_things(case)


def point_at_doomed_session(case):
    case.path_parameters["session_id"] = new_session()


def point_at_run(case):
    case.path_parameters["run_id"] = finished_query()["run_id"]


def point_at_waiting_run(case):
    case.path_parameters["run_id"] = run_asking_a_question()["run_id"]


def point_at_waiting_session(case):
    case.path_parameters["session_id"] = run_asking_a_question()["session_id"]


def point_at_permission_request(case):
    """Asks as somebody else: what is allowed for a whole workspace is never asked again in it."""
    token = once("asker", lasting_account)
    request = run_asking_permission(token)
    case.path_parameters.update(session_id=request["session_id"], request_id=request["id"])
    case.headers["Authorization"] = f"Bearer {token}"
    if case.body["decision"] == "allow_workspace":
        kept.pop("asker")
    # A call that is denied has no input to change: this the contract says in words.
    if case.body["decision"] == "deny":
        case.body = {name: value for name, value in case.body.items() if name != "updated_input"}


def point_at_prompt_request(case):
    request = run_asking_a_question()
    case.path_parameters.update(session_id=request["session_id"], request_id=request["id"])
    if "answers" in case.body:
        case.body = {"answers": [{"question_id": "colour", "fill_in_text": "green"}]}


def point_at_key(case):
    case.path_parameters["key_id"] = once("key", new_key)


def point_at_doomed_key(case):
    case.path_parameters["key_id"] = new_key()


def point_at_person(case):
    case.path_parameters["user_id"] = once("person", new_person)


def point_at_doomed_person(case):
    case.path_parameters["user_id"] = new_person()
    case.query = {name: value for name, value in (case.query or {}).items() if name != "transfer_to"}


def change_person(case):
    point_at_person(case)
    if "organization_id" in case.body:
        case.body = {**case.body, "organization_id": own_organization()}


def make_person(case):
    case.body = {**case.body, "email": new_email(), "organization_id": own_organization()}


def list_own_people(case):
    if "organization_id" in (case.query or {}):
        case.query = {**case.query, "organization_id": own_organization()}


def make_unbound_key(case):
    case.body = {name: value for name, value in case.body.items() if name not in ("workspace_id", "ip_allow")}


def choose_known_time_zone(case):
    if case.body.get("timezone") is not None:
        case.body = {**case.body, "timezone": "Europe/London"}


def point_at_agent(case):
    case.path_parameters["agent_id"] = once("agent", new_agent)


def point_at_doomed_agent(case):
    case.path_parameters["agent_id"] = new_agent()


def new_provider_setting():
    # Disabled, so that no query of the fuzzer goes there.
    body = {**GATEWAY, "scope": "user", "name": new_name("gateway"), "disable": True}
    token = once("owner of settings", lasting_account)
    return post("/api/v1/settings/providers", body, token).json()["id"]


GATEWAY = {
    "provider_id": "gateway",
    "type": "openai-compat",
    "base_url": "https://llm.example.com/v1",
    "models": [{"id": "big"}],
}
# What of a provider only the whole of it can be right or wrong about.
PROVIDER_PARTS = ("type", "base_url", "api_key", "extra_headers", "extra_body", "models")


def make_provider_setting(case):
    """One that could be used, of somebody new: of a person there are not many."""
    parts = ("workspace_id", "organization_id", *PROVIDER_PARTS)
    body = {name: value for name, value in case.body.items() if name not in parts}
    case.body = {**body, **GATEWAY, "scope": "user"}
    act_as(case, register())


def point_at_custom_model(case):
    """One beside those that the setting cannot do without."""
    point_at_provider_setting(case)
    path = f"/api/v1/settings/providers/{case.path_parameters['setting_id']}/models/of-the-fuzzer"
    headers = {"Authorization": f"Bearer {once('owner of settings', lasting_account)}"}
    http.put(URL + path, json={}, headers=headers, timeout=TIMEOUT).raise_for_status()
    case.path_parameters["model_id"] = "of-the-fuzzer"
    case.headers.pop("If-Match", None)


def choose_known_models(case):
    """Which models there are, the contract cannot say; the choice is the fuzzer's own."""
    case.query = {name: value for name, value in (case.query or {}).items() if name not in ("scope", "workspace_id", "organization_id")}
    if isinstance(case.body, dict):
        case.body = {name: value and "scripted:scripted-1" for name, value in case.body.items()}
    act_as(case, once("owner of settings", lasting_account))


def point_at_provider_setting(case):
    case.path_parameters["setting_id"] = once("provider setting", new_provider_setting)
    act_as(case, once("owner of settings", lasting_account))


def change_provider_setting(case):
    body = {name: value for name, value in case.body.items() if name not in PROVIDER_PARTS}
    case.body = {**body, "disable": True, "name": new_name("gateway")}
    point_at_provider_setting(case)


def begin_to_connect(case):
    """Which places a flow needs, and that they are secure, the contract cannot say; a device would have to be asked for."""
    place = "https://auth.example.com/"
    client = {"client_id": "fuzzer", "auth_url": f"{place}authorize", "token_url": f"{place}token"}
    case.body = {**case.body, "flow": "code", "client": client}
    point_at_provider_setting(case)


class TokenServer(BaseHTTPRequestHandler):
    """A provider that gives a token for a code, whichever it is, and says that it has no models."""

    def do_GET(self):
        self.answer({"object": "list", "data": []})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"access_token": "of-the-fuzzer", "expires_in": 3600})

    def answer(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def start_token_server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), TokenServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/token"


def try_provider_that_answers(case):
    def make():
        base_url = urljoin(once("token server", start_token_server), "/v1")
        body = {**GATEWAY, "scope": "user", "name": new_name("gateway"), "disable": True, "base_url": base_url}
        return post("/api/v1/settings/providers", body, once("owner of settings", lasting_account)).json()["id"]

    case.path_parameters["setting_id"] = once("provider that answers", make)
    act_as(case, once("owner of settings", lasting_account))


def come_back_to_connect(case):
    point_at_provider_setting(case)
    client = {
        "client_id": "fuzzer",
        "auth_url": "https://auth.example.com/authorize",
        "token_url": once("token server", start_token_server),
    }
    path = f"/api/v1/settings/providers/{case.path_parameters['setting_id']}/oauth/start"
    begun = post(path, {"flow": "code", "client": client}, once("owner of settings", lasting_account)).json()
    case.body = {"state": begun["state"], "code": "of-the-fuzzer"}


def point_at_doomed_provider_setting(case):
    case.path_parameters["setting_id"] = new_provider_setting()
    act_as(case, once("owner of settings", lasting_account))


class McpServer(BaseHTTPRequestHandler):
    """An MCP server over streamable HTTP: one tool, one thing to read, one prompt."""

    RESULTS = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
            "serverInfo": {"name": "of-the-fuzzer", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]},
        "prompts/list": {"prompts": [{"name": "ask"}]},
        "resources/list": {"resources": [{"uri": "fuzz://all", "name": "all"}]},
        "resources/templates/list": {"resourceTemplates": []},
    }

    def do_GET(self):
        if self.path != "/.well-known/oauth-authorization-server":
            return self.answer(405 if self.path == "/mcp" else 404, None)
        origin = f"http://{self.headers['Host']}"
        places = {f"{name}_endpoint": f"{origin}/{name}" for name in ("authorization", "token", "registration")}
        supported = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
        self.answer(200, {"issuer": origin, **places, **supported, "token_endpoint_auth_methods_supported": ["none"]})

    def do_POST(self):
        if self.path == "/registration":
            return self.answer(201, {"client_id": "of-the-fuzzer", "redirect_uris": []})
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            return self.answer(202, None)
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": self.RESULTS.get(message["method"], {})})

    def answer(self, status, content):
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def start_mcp_server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), McpServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/mcp"


def new_mcp_server(**more):
    url = once("MCP server that listens", start_mcp_server)
    body = {"scope": "user", "name": new_name("mcp"), "type": "http", "url": url, **more}
    return post("/api/v1/mcp/servers", body, once("owner of settings", lasting_account)).json()["id"]


# What of a server only the whole of it can be right or wrong about, and what the operator alone may say.
MCP_PARTS = ("type", "url", "headers", "command", "args", "env", "workspace_id", "organization_id")


def make_mcp_server(case):
    """One that could be used, of somebody new: of a person there are not many."""
    body = {name: value for name, value in case.body.items() if name not in MCP_PARTS}
    case.body = {**body, "scope": "user", "type": "http", "url": "https://mcp.example.com/mcp"}
    act_as(case, register())


def point_at_mcp_server(case):
    """A process would work in the workspace that is named, a remote server in none."""
    if case.query:
        case.query = {name: value for name, value in case.query.items() if name not in ("workspace_id", "cursor")}
    case.path_parameters["server_id"] = once("MCP server", new_mcp_server)
    act_as(case, once("owner of settings", lasting_account))


def change_mcp_server(case):
    body = {name: value for name, value in case.body.items() if name not in MCP_PARTS}
    case.body = {**body, "disabled": True, "name": new_name("mcp")}
    case.path_parameters["server_id"] = once("MCP server to change", new_mcp_server)
    act_as(case, once("owner of settings", lasting_account))


def come_back_to_mcp_server(case):
    """The person has refused: an attempt that there is, without a token."""
    path = f"/api/v1/mcp/servers/{once('MCP server', new_mcp_server)}/oauth/start"
    begun = post(path, {}, once("owner of settings", lasting_account)).json()
    state = parse_qs(urlsplit(begun["authorize_url"]).query)["state"][0]
    case.query = {"state": state, "error": "access_denied"}


def point_at_doomed_mcp_server(case):
    case.path_parameters["server_id"] = new_mcp_server(disabled=True)
    act_as(case, once("owner of settings", lasting_account))


def new_file():
    form = {"file": ("made.txt", new_name("file"))}
    headers = {"Authorization": f"Bearer {KEY}"}
    response = http.post(f"{URL}/api/v1/files", files=form, headers=headers, timeout=TIMEOUT)
    response.raise_for_status()
    return response.json()["id"]


def new_upload(size=1000, sha256="0" * 64):
    body = {"filename": new_name("upload"), "size": size, "sha256": sha256}
    return post("/api/v1/files/uploads", body, KEY).json()["id"]


def add_to_upload(case):
    """How many bytes there are, and how many are still to come, the contract cannot say."""
    case.path_parameters["upload_id"] = new_upload()
    case.headers["Upload-Offset"] = "0"
    case.body = b"some bytes"


def begin_small_upload(case):
    """It reserves room, of which a file has so much at most."""
    upload_to_own_workspace(case)
    if isinstance(case.body, dict) and isinstance(case.body.get("size"), int):
        case.body = {**case.body, "size": min(case.body["size"], 1000)}


def complete_empty_upload(case):
    case.path_parameters["upload_id"] = new_upload(0, hashlib.sha256(b"").hexdigest())


def abort_new_upload(case):
    case.path_parameters["upload_id"] = new_upload()


def point_at_file(case):
    case.path_parameters["file_id"] = once("file", new_file)


def point_at_doomed_file(case):
    case.path_parameters["file_id"] = new_file()


def upload_to_own_workspace(case):
    if isinstance(case.body, dict):
        case.body.pop("workspace_id", None)


def new_memory():
    return post("/api/v1/memories", {"scope": "user", "content": new_name("memory")}).json()["id"]


def point_at_memory(case):
    case.path_parameters["memory_id"] = once("memory", new_memory)


def point_at_doomed_memory(case):
    case.path_parameters["memory_id"] = new_memory()


def new_scheduled_job(**more):
    body = {"name": "Made for the fuzzer", "prompt": "Hello", "model": MODEL, "cron": "0 0 29 2 *", **more}
    return post("/api/v1/scheduler/jobs", body).json()["id"]


def new_job_run():
    job_id = new_scheduled_job()
    return {"job_id": job_id, "job_run_id": post(f"/api/v1/scheduler/jobs/{job_id}/run", None).json()["id"]}


def point_at_job_of_scheduler(case):
    case.path_parameters["job_id"] = once("scheduled_job", new_scheduled_job)


def point_at_doomed_job_of_scheduler(case):
    case.path_parameters["job_id"] = new_scheduled_job()


def point_at_paused_job(case):
    job_id = new_scheduled_job()
    post(f"/api/v1/scheduler/jobs/{job_id}/pause", None)
    case.path_parameters["job_id"] = job_id


def point_at_job_run(case):
    case.path_parameters.update(once("job_run", new_job_run))


def schedule(case):
    """Of what says when a job runs, exactly one may be given, and by chance no text is a pattern."""
    if not isinstance(case.body, dict):
        return
    times = {"cron": "15 4 * * MON", "interval_s": 3600, "run_at": "2099-01-01T00:00:00Z"}
    body = {name: value for name, value in case.body.items() if name not in times}
    for name in ("workspace_id", "session_id", "session_mode", "ends_at"):
        body.pop(name, None)
    real = {"timezone": "Europe/Berlin", "agent_slug": "coder", "model": MODEL, "after": "2027-01-01T00:00:00Z"}
    body = {name: real.get(name, value) for name, value in body.items()}
    given = next((name for name in times if name in case.body), "cron")
    case.body = {**body, given: times[given]}


def change_job(case):
    point_at_job_of_scheduler(case)
    schedule(case)


def name_owner_of_memory(case):
    # What goes with one scope is refused with another; a time of chance has mostly passed.
    if not isinstance(case.body, dict):
        return
    kept = {name: case.body[name] for name in ("content", "kind", "tags") if name in case.body}
    case.body = {**kept, "scope": "user"}


def keep_memory(case):
    point_at_memory(case)
    if isinstance(case.body, dict):
        case.body.pop("expires_at", None)
        case.body = case.body or {"kind": "fact"}


def purge_nobody(case):
    # Others still ask for the memories of the fuzzer itself.
    if isinstance(case.body, dict):
        case.body = {"scope": "agent", "agent_slug": "nobody", "confirm": True}


def skill_text(name):
    return f"---\nname: {name}\ndescription: Made for the fuzzer.\n---\nDo it well.\n"


def new_skill(name=None):
    name = name or new_name("skill")
    form = {"scope": (None, "user"), "file": ("SKILL.md", skill_text(name))}
    headers = {"Authorization": f"Bearer {KEY}"}
    response = http.post(f"{URL}/api/v1/skills", files=form, headers=headers, timeout=TIMEOUT)
    response.raise_for_status()
    return response.json()["id"]


def point_at_skill(case):
    case.path_parameters["skill_id"] = once("skill", new_skill)
    for part in (case.query, case.body):
        if isinstance(part, dict):
            part.pop("workspace_id", None)


def replace_skill(case):
    # A skill keeps its name, and what it says has a form: chance would find neither.
    case.path_parameters["skill_id"] = once("replaced skill", lambda: new_skill("fuzz-replaced"))
    if isinstance(case.body, dict) and "file" in case.body and is_valid(case):
        case.body = {**case.body, "file": skill_text("fuzz-replaced")}
    # On the wire every file is bytes: what refuses it is what they say, and not that somebody was faster.
    if not is_valid(case) and case.headers:
        case.headers.pop("If-Match", None)


def point_at_doomed_skill(case):
    # Of one owner there are no more than fifty.
    case.path_parameters["skill_id"] = new_skill()


REPOSITORIES = "/api/v1/skills/repositories"


def new_skill_repository(url="https://git.example.com/fuzz/skills.git"):
    make_room_for_repositories()
    return post(REPOSITORIES, {"url": url, "name": new_name("repository")}, OPERATOR_KEY).json()["id"]


def make_room_for_repositories():
    """There are no more than fifty, and each case that adds one leaves it."""
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    there = http.get(f"{URL}{REPOSITORIES}?limit=100", headers=headers, timeout=TIMEOUT).json()["data"]
    if len(there) < 40:
        return
    needed = [kept.get("skill repository"), kept.get("proposing repository")]
    for one in there:
        if one["id"] not in needed:
            http.delete(f"{URL}{REPOSITORIES}/{one['id']}", headers=headers, timeout=TIMEOUT)


def proposing_repository():
    """One that was fetched from a real git server, and what it proposes."""
    made = new_skill_repository(GIT_URL)
    post(f"{REPOSITORIES}/{made}/sync", None, OPERATOR_KEY)
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    for _ in range(2400):
        one = http.get(f"{URL}{REPOSITORIES}/{made}", headers=headers, timeout=TIMEOUT).json()
        if one["state"] != "syncing":
            break
        time.sleep(0.05)
    if one["proposed_commit"] is None:
        raise RuntimeError(f"The repository {made} proposes nothing: {one}")
    return made, one["proposed_commit"]


def point_at_proposal(case):
    act_as(case, OPERATOR_KEY)
    case.path_parameters["repository_id"] = once("proposing repository", lambda: proposing_repository()[0])


def apply_proposal(case):
    """What was applied is proposed no more: a few succeed, and the others are told so."""
    act_as(case, OPERATOR_KEY)
    if is_valid(case) and isinstance(case.body, dict) and next(once("applications", lambda: iter(range(3))), None) is not None:
        case.path_parameters["repository_id"], case.body["commit"] = proposing_repository()
    else:
        case.path_parameters["repository_id"] = once("skill repository", new_skill_repository)


def point_at_skill_repository(case):
    act_as(case, OPERATOR_KEY)
    case.path_parameters["repository_id"] = once("skill repository", new_skill_repository)
    case.headers.pop("If-Match", None)
    name_a_git_server(case)


def point_at_doomed_skill_repository(case):
    # There are no more than fifty.
    act_as(case, OPERATOR_KEY)
    case.path_parameters["repository_id"] = new_skill_repository()
    case.headers.pop("If-Match", None)


def add_skill_repository(case):
    act_as(case, OPERATOR_KEY)
    make_room_for_repositories()
    name_a_git_server(case)


def name_a_git_server(case):
    """The contract cannot say which URLs git is asked by; nor is a token sent to another server than it was given for."""
    if isinstance(case.body, dict) and is_valid(case) and "url" in case.body:
        case.body["url"] = "https://git.example.com/fuzz/skills.git"


def make_own_skill(case):
    if isinstance(case.body, dict):
        case.body.pop("workspace_id", None)
        # The file is to come last.
        if "file" in case.body:
            case.body["file"] = case.body.pop("file")


def new_corpus():
    return post("/api/v1/corpora", {"name": "Made for the fuzzer"}).json()["id"]


def corpus():
    return once("corpus", new_corpus)


def point_at_corpus(case):
    case.path_parameters["corpus_id"] = corpus()


def point_at_doomed_corpus(case):
    case.path_parameters["corpus_id"] = new_corpus()


def make_corpus(case):
    """In the workspace that everybody has; how much of a passage the next one repeats depends on its size."""
    case.body = {name: value for name, value in case.body.items() if name not in ("workspace_id", "chunking")}


def change_corpus(case):
    point_at_corpus(case)
    if "chunking" in case.body:
        case.body = {**case.body, "chunking": {"strategy": "fixed", "size": 100, "overlap": 10}}


def grant_to_ourselves(case):
    """Of whom else a corpus could be granted to, the contract knows nothing."""
    point_at_doomed_corpus(case)
    roles = [grant["role"] for grant in case.body["grants"][:1]]
    case.body = {"grants": [{"principal": own_id(), "role": role} for role in roles]}


def add_texts(case):
    """Files that there are the fuzzer does not know, and an address belongs to somebody else."""
    point_at_corpus(case)
    body = {name: value for name, value in case.body.items() if name not in ("file_ids", "urls")}
    case.body = {"texts": [{"title": "Made for the fuzzer", "text": "# Hello"}], **body}


def new_job(body):
    job = post(f"/api/v1/corpora/{corpus()}/documents", body).json()
    return job["id"], job["items"][0]["document_id"]


def new_document():
    return new_job({"texts": [{"title": "Made for the fuzzer", "text": "# Hello"}]})[1]


def point_at_document(case):
    case.path_parameters.update(corpus_id=corpus(), document_id=once("document", new_document))


def point_at_doomed_document(case):
    case.path_parameters.update(corpus_id=corpus(), document_id=new_document())


def new_lasting_job():
    """Where nobody listens it is tried again after a while: so long the job has not ended."""
    return new_job({"urls": [f"http://127.0.0.1:9/{new_name('page')}"]})[0]


def point_at_job(case):
    case.path_parameters.update(corpus_id=corpus(), ingestion_id=once("job", new_lasting_job))


def point_at_doomed_job(case):
    case.path_parameters.update(corpus_id=corpus(), ingestion_id=new_lasting_job())


def point_at_cancelled_job(case):
    point_at_doomed_job(case)
    post(f"/api/v1/corpora/{corpus()}/ingestion-jobs/{case.path_parameters['ingestion_id']}/cancel", None)


def search_real_corpora(case):
    case.body = {**case.body, "corpus_ids": [corpus()]}
    rerank_by_real_model(case)


def search_real_corpus(case):
    point_at_corpus(case)
    rerank_by_real_model(case)


def rerank_by_real_model(case):
    if "rerank" in case.body:
        case.body = {**case.body, "rerank": {**case.body["rerank"], "model": MODEL}}


def new_workspace():
    return post("/api/v1/workspaces", {"name": "Made for the fuzzer"}).json()["id"]


def own_id():
    return once("own id", lambda: me()["id"])


def point_at_workspace(case):
    case.path_parameters["workspace_id"] = once("workspace", new_workspace)


def point_at_doomed_workspace(case):
    case.path_parameters["workspace_id"] = new_workspace()


def new_settings():
    """A workspace whose folder holds a settings file."""
    workspace_id = new_workspace()
    headers = {"Authorization": f"Bearer {KEY}", "If-Match": "*", "Content-Type": "application/merge-patch+json"}
    url = f"{URL}/api/v1/workspaces/{workspace_id}/config"
    http.patch(url, json={"options": {"debug": True}}, headers=headers, timeout=TIMEOUT).raise_for_status()
    return workspace_id


def trust_what_was_read(case):
    """Trust is the operator's to give, to the bytes that somebody has looked at."""
    workspace_id = new_settings()
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    found = http.get(f"{URL}/api/v1/workspaces/{workspace_id}/trust", headers=headers, timeout=TIMEOUT).json()["files"]
    case.path_parameters["workspace_id"] = workspace_id
    act_as(case, OPERATOR_KEY)
    case.body = {"files": [{name: file[name] for name in ("path", "sha256")} for file in found]}


def point_at_own_membership(case):
    """A workspace of its own each time, of which the caller is made a member who can be removed."""
    workspace_id, principal_id = new_workspace(), own_id()
    headers = {"Authorization": f"Bearer {KEY}"}
    member = f"{URL}/api/v1/workspaces/{workspace_id}/members/{principal_id}"
    http.put(member, json={"role": "viewer"}, headers=headers, timeout=TIMEOUT).raise_for_status()
    case.path_parameters.update(workspace_id=workspace_id, principal_id=principal_id)


def name_real_terms(case):
    """A model that is there, a mode that is not for operators, no folder and no organization that are not there."""
    body = {name: value for name, value in case.body.items() if name not in ("organization_id", "path")}
    if body.get("default_model") is not None:
        body["default_model"] = MODEL
    if body.get("permission_mode") == "bypass":
        body["permission_mode"] = "ask"
    case.body = body


def change_real_settings(case):
    """What a settings file may hold, its own schema says; there are tests of it elsewhere."""
    point_at_workspace(case)
    case.body = {"options": {"debug": True}}
    case.headers["If-Match"] = "*"


def found_for_somebody_else(case):
    """Each request of somebody reads all of their organizations: those of the fuzzer stay few."""
    case.headers["Authorization"] = f"Bearer {register()}"


def point_at_organization(case):
    case.path_parameters["org_id"] = team()


def point_at_changing_organization(case):
    case.path_parameters["org_id"] = once("changing organization", lambda: new_organization()[0])


def point_at_doomed_organization(case):
    case.path_parameters["org_id"], case.headers["If-Match"] = new_organization()


def point_at_member(case):
    case.path_parameters.update(org_id=team(), user_id=once("member with roles", new_member))


def point_at_doomed_member(case):
    case.path_parameters.update(org_id=team(), user_id=new_member())


def invite_somebody_new(case):
    point_at_organization(case)
    case.body = {name: value for name, value in case.body.items() if name != "expires_at"}
    case.body["email"] = new_email()


def point_at_invitation(case):
    case.path_parameters.update(org_id=team(), invitation_id=new_invitation()["invitation"]["id"])


def accept_own_invitation(case):
    account = new_account()
    case.headers["Authorization"] = f"Bearer {account['access_token']}"
    case.body = {"token": new_invitation(account["user"]["email"])["token"]}


def name_new_group(case):
    case.body = {"organization_id": team(), "name": new_name("group")}


def point_at_group(case):
    case.path_parameters["group_id"] = once("group", new_group)


def point_at_doomed_group(case):
    case.path_parameters["group_id"] = new_group()


def point_at_group_member(case):
    case.path_parameters.update(new_group_member())


def list_all_groups(case):
    case.query = {name: value for name, value in (case.query or {}).items() if name != "organization_id"}


def new_plan():
    body = {"prompt": "A better test", "agent_slug": "plan", "model": "demo:demo-1"}
    session_id = post("/api/v1/query", body).json()["session_id"]
    headers = {"Authorization": f"Bearer {KEY}"}
    found = http.get(f"{URL}/api/v1/plans?session_id={session_id}", headers=headers, timeout=TIMEOUT)
    return found.json()["data"][0]["id"]


def point_at_plan(case):
    case.path_parameters["plan_id"] = once("plan", new_plan)


def change_plan(case):
    point_at_plan(case)
    case.headers["If-Match"] = "*"


def point_at_doomed_plan(case):
    case.path_parameters["plan_id"] = new_plan()
    body = {name: value for name, value in (case.body or {}).items() if name == "comment"}
    if case.body is not None:
        case.body = {**body, "model": "demo:demo-1"} if case.operation.path.endswith("approve") else body


def point_at_entry(case):
    def newest():
        headers = {"Authorization": f"Bearer {KEY}"}
        return http.get(f"{URL}/api/v1/audit/logs", headers=headers, timeout=TIMEOUT).json()["data"][0]["id"]

    case.path_parameters["entry_id"] = once("entry", newest)


def find_in_own_organization(case):
    case.query = {name: value for name, value in (case.query or {}).items() if name != "organization_id"}


def verify_without_anchor(case):
    """Every chain differs from a head that was invented; that this is told is tested elsewhere."""
    case.query = {name: value for name, value in (case.query or {}).items() if name != "anchor"}


def name_new_agent(case):
    """A slug that nobody has, in the workspace that everybody has."""
    case.body = {name: value for name, value in case.body.items() if name != "workspace_id"}
    case.body["slug"] = new_name("agent")


def list_in_default_workspace(case):
    case.query = {name: value for name, value in (case.query or {}).items() if name != "workspace_id"}


def name_real_things(case):
    """In a body, what names a thing that must exist names one, or is left out."""
    body = dict(case.body)
    for name in ("workspace_id", "corpus_id", "permission_mode"):
        body.pop(name, None)
    real = {
        "agent_slug": lambda: "coder",
        "model": lambda: MODEL,
        "session_id": lambda: finished_query()["session_id"],
        "attachments": lambda: [once("file", new_file)],
    }
    for name, make in real.items():
        if name in body:
            body[name] = make()
    if body:
        case.body = body


def ask_as_configured(case):
    """A provider that there is not is not found; which of them there are is tested elsewhere."""
    case.body = {name: value for name, value in case.body.items() if name not in ("workspace_id", "provider", "model")}


def send_a_sound(case):
    """By chance no bytes are a sound, and what is none is told apart by its bytes."""
    ask_as_configured(case)
    if case.media_type == "multipart/form-data":
        fields = {name: value for name, value in case.body.items() if name != "file"}
        case.body = {**fields, "file": "RIFF$\0\0\0WAVEfmt "}
    else:
        case.body = {**case.body, "audio": "UklGRiQAAABXQVZFZm10IA=="}
    # The vendor takes languages of two or three letters.
    if "language" in case.body:
        case.body["language"] = "en"


def import_for_this_server(case):
    """The profile and the model of an exported session have to be here; that there are such cases is tested elsewhere."""
    list_in_default_workspace(case)
    here = {"agent_slug": "coder", "model": MODEL}
    case.query = {name: here.get(name, value) for name, value in (case.query or {}).items()}
    case.body = {**case.body, "session": {**case.body["session"], "agent_slug": "coder", "model": None}}


def name_real_model(case):
    """The demonstration takes any settings; the vendor whose dialect the upstream speaks refuses some."""
    body = {name: value for name, value in case.body.items() if name not in ("tools", "tool_choice", "thread")}
    case.body = {**body, "model": "demo:demo-1", "messages": [{"role": "user", "content": "Hello"}]}
    if isinstance(body.get("system"), list):
        case.body["system"] = [{"type": "text", "text": "Be brief."}]
    if "x-service-session-id" in (case.headers or {}):
        case.headers["x-service-session-id"] = once("conversation", new_session)


def replay_default_workspace(case):
    case.query = {name: value for name, value in (case.query or {}).items() if name not in ("workspace_id", "after")}
    case.headers.pop("Last-Event-ID", None)


def end_by_itself(case):
    """The stream of a workspace has no end: unless the case is about `follow`, it replays what is stored."""
    if (case.query or {}).get("follow") in (None, True, "true", "True"):
        case.query = {**(case.query or {}), "follow": "false"}


def register_with_plain_data(case):
    case.body = {name: value for name, value in case.body.items() if not name.endswith("_token")}


def log_in_as_ourselves(case):
    case.body = {"email": EMAIL, "password": PASSWORD}


def use_fresh_refresh_token(case):
    # Each answer holds the token for the next call.
    case.body = {"refresh_token": kept.pop("refresh_token", None) or log_in()["refresh_token"]}


def log_out_newcomer(case):
    """All devices may be meant, and with our own account other cases are logged in."""
    act_as(case, register())


def new_quota(limits=None):
    headers = {"Authorization": f"Bearer {KEY}"}
    body = {"limits": {"jobs": {"hard": 10_000}}}
    url = f"{URL}/api/v1/quotas/user/{own_id()}?organization_id={home()}"
    http.put(url, json=body, headers=headers, timeout=TIMEOUT).raise_for_status()
    return own_id()


def home():
    """The fuzzer owns several organizations: which one is meant has to be said."""
    return once("home", lambda: me()["memberships"][0]["organization_id"])


def me():
    return http.get(f"{URL}/api/v1/users/me", headers={"Authorization": f"Bearer {KEY}"}, timeout=TIMEOUT).json()


def point_at_quota(case):
    case.path_parameters.update(subject_type="user", subject_id=new_quota())
    case.query = {"organization_id": home()}
    case.headers.pop("If-Match", None)


def spare_the_fuzzer(case):
    """Limits of the account that the fuzzer uses would end its work: it sets those that bite nobody yet."""
    if isinstance(case.body, dict) and isinstance(case.body.get("limits"), dict):
        case.body = {**case.body, "limits": {"jobs": {"hard": 10_000}, "storage": {"soft": 1}}}


def describe_models(case):
    """The operator alone may; and what a URL gives is not for the contract to say."""
    act_as(case, OPERATOR_KEY)
    if isinstance(case.body, dict) and "url" in case.body:
        case.body = {"name": case.body.get("name"), "models": []}


def change_limits_of_storage(case):
    """The operator alone may; a bucket belongs to somebody else, and files have to be stored by others meanwhile."""
    act_as(case, OPERATOR_KEY)
    if isinstance(case.body, dict):
        case.body = {"max_file_bytes": 104857600}
    case.headers["If-Match"] = "*"


def change_results_of_web_search(case):
    """The operator alone may; the environment names the engine."""
    act_as(case, OPERATOR_KEY)
    if isinstance(case.body, dict):
        case.body = {"max_results": 5}


def change_batches(case):
    """The operator alone may; and what can embed is not for the contract to say."""
    act_as(case, OPERATOR_KEY)
    if isinstance(case.body, dict):
        case.body = {"batch_size": 64}
    case.headers["If-Match"] = "*"


def point_at_catalog(case):
    act_as(case, OPERATOR_KEY)
    body = {"name": "Models of the fuzzer", "models": []}
    made = post("/api/v1/settings/providers/catalogs", body, OPERATOR_KEY).json()
    case.path_parameters.update(catalog_id=made["id"])
    case.headers.pop("If-Match", None)


def name_a_real_period(case):
    """The contract cannot say that a period has a beginning before its end, and no more than a year between them."""
    case.query = {name: value for name, value in (case.query or {}).items() if name not in ("from", "to")}


def act_as(case, token):
    case.headers["Authorization"] = f"Bearer {token}"


def change_password_of_newcomer(case):
    act_as(case, register())
    case.body = {"current_password": PASSWORD, "new_password": PASSWORD}


def make_link(case):
    act_as(case, OPERATOR_KEY)
    case.body = {"email": EMAIL}


def use_fresh_link(case):
    body = {"email": new_account()["user"]["email"]}
    link = post("/api/v1/auth/password/links", body, OPERATOR_KEY).json()
    case.body = {**case.body, "token": link["token"]}


def enroll_newcomer(case):
    act_as(case, register())
    case.body = {"password": PASSWORD}


def confirm_newcomer(case):
    token, secret = enrolled_account()
    act_as(case, token)
    case.body = {"code": code_now(secret)}


def disable_for_newcomer(case):
    token, secret = enrolled_account()
    codes = post("/api/v1/auth/mfa/confirm", {"code": code_now(secret)}, token).json()["recovery_codes"]
    act_as(case, token)
    case.headers["x-service-otp"] = codes[0]


def start_device():
    return http.post(f"{URL}/api/v1/auth/device/code", json={}, timeout=TIMEOUT).json()


def reply_to_device(user_code, decision):
    post("/api/v1/auth/device/reply", {"user_code": user_code, "decision": decision}, log_in()["access_token"])


def point_at_allowed_device(case):
    device = start_device()
    reply_to_device(device["user_code"], "allow")
    case.body = {"device_code": device["device_code"]}


def as_new_person(case):
    """Whoever tries codes is held up: the next one is somebody else."""
    case.headers["Authorization"] = f"Bearer {register()}"


def look_at_device(case):
    as_new_person(case)
    case.query = {"user_code": start_device()["user_code"]}


def reply_as_new_person(case):
    as_new_person(case)
    case.body = {**case.body, "user_code": start_device()["user_code"]}


def go_to_provider():
    """The page of the provider, and the cookie by which the server knows this browser."""
    path = f"{URL}/api/v1/auth/oidc/corp/authorize"
    # A visitor of its own: the cookie of an earlier one would come along, and of two the server takes neither.
    response = requests.get(path, allow_redirects=False, timeout=TIMEOUT)
    return response.headers["Location"], response.cookies["service_oidc"]


def refuse_at_provider(case):
    page, cookie = go_to_provider()
    case.path_parameters["provider"] = "corp"
    case.query = {"state": parse_qs(urlsplit(page).query)["state"][0], "error": "access_denied"}
    case.cookies = {"service_oidc": cookie}


def come_back_with_code(case):
    page, cookie = go_to_provider()
    browser = requests.Session()
    while not page.startswith(URL):
        page = urljoin(page, browser.get(page, allow_redirects=False, timeout=TIMEOUT).headers["Location"])
    cookies = {"service_oidc": cookie}
    response = requests.get(page, cookies=cookies, allow_redirects=False, timeout=TIMEOUT)
    case.body = {"login_code": response.headers["Location"].split("login_code=")[1]}
    case.cookies = cookies


def name_provider(case):
    case.path_parameters["provider"] = "corp"


def link_as_ourselves(case):
    act_as(case, log_in()["access_token"])
    name_provider(case)


def point_at_doomed_login(case):
    token = register()
    act_as(case, token)
    headers = {"Authorization": f"Bearer {token}"}
    logins = http.get(f"{URL}/api/v1/auth/logins", headers=headers, timeout=TIMEOUT).json()["data"]
    case.path_parameters["login_id"] = logins[0]["id"]


POINTERS = {
    "changePassword": change_password_of_newcomer,
    "createPasswordResetLink": make_link,
    "resetPassword": use_fresh_link,
    "enrollMfa": enroll_newcomer,
    "confirmMfa": confirm_newcomer,
    "disableMfa": disable_for_newcomer,
    "getSession": point_at_session,
    "updateSession": lambda case: (point_at_session(case), name_real_things(case)),
    "listMessages": point_at_session,
    "getMessage": point_at_prompt,
    "updateMessage": point_at_prompt,
    "deleteMessage": point_at_prompt,
    "getSessionDiff": point_at_session,
    "revertSession": go_back_to_prompt,
    "forkSession": fork_at_prompt,
    "listPermissionRequests": point_at_session,
    "listPromptRequests": point_at_session,
    "listQueuedPrompts": point_at_session,
    "clearQueuedPrompts": point_at_session,
    "listSessionTodos": point_at_session,
    "listSessionChildren": point_at_session,
    "inspectSession": point_at_session,
    "streamEvents": replay_default_workspace,
    "deleteSession": point_at_doomed_session,
    "interruptSession": point_at_waiting_session,
    "summarizeSession": sum_up_new_conversation,
    "replyPermission": point_at_permission_request,
    "replyPrompt": point_at_prompt_request,
    "getRun": point_at_run,
    "streamRunEvents": point_at_run,
    "interruptRun": point_at_waiting_run,
    "getApiKey": point_at_key,
    "createApiKey": make_unbound_key,
    "updateApiKey": lambda case: (point_at_key(case), case.body.pop("ip_allow", None)),
    "rotateApiKey": point_at_key,
    "listUsers": list_own_people,
    "createUser": make_person,
    "getUser": point_at_person,
    "updateUser": change_person,
    "deleteUser": point_at_doomed_person,
    "revokeUserLogins": point_at_person,
    "updatePreferences": choose_known_time_zone,
    "revokeApiKey": point_at_doomed_key,
    "createOrganization": found_for_somebody_else,
    "getOrganization": point_at_organization,
    "updateOrganization": point_at_changing_organization,
    "deleteOrganization": point_at_doomed_organization,
    "listOrgMembers": point_at_organization,
    "putOrgMember": point_at_member,
    "removeOrgMember": point_at_doomed_member,
    "listInvitations": point_at_organization,
    "createInvitation": invite_somebody_new,
    "revokeInvitation": point_at_invitation,
    "acceptInvitation": accept_own_invitation,
    "listGroups": list_all_groups,
    "createGroup": name_new_group,
    "getGroup": point_at_group,
    "updateGroup": point_at_group,
    "deleteGroup": point_at_doomed_group,
    "listGroupMembers": point_at_group,
    "addGroupMember": point_at_group_member,
    "removeGroupMember": point_at_group_member,
    "listAgents": list_in_default_workspace,
    "createAgent": name_new_agent,
    "createMcpServer": make_mcp_server,
    "getMcpServer": point_at_mcp_server,
    "updateMcpServer": change_mcp_server,
    "deleteMcpServer": point_at_doomed_mcp_server,
    "testMcpServer": point_at_mcp_server,
    "reconnectMcpServer": point_at_mcp_server,
    "startMcpOauth": point_at_mcp_server,
    "revokeMcpOauth": point_at_mcp_server,
    "completeMcpOauth": come_back_to_mcp_server,
    "listMcpTools": point_at_mcp_server,
    "listMcpResources": point_at_mcp_server,
    "listMcpPrompts": point_at_mcp_server,
    "createProviderSetting": make_provider_setting,
    "getProviderSetting": point_at_provider_setting,
    "updateProviderSetting": change_provider_setting,
    "deleteProviderSetting": point_at_doomed_provider_setting,
    "testProviderSetting": try_provider_that_answers,
    "listProviderModels": point_at_provider_setting,
    "refreshProviderModels": point_at_provider_setting,
    "getProviderModel": point_at_custom_model,
    "putCustomModel": point_at_custom_model,
    "deleteCustomModel": point_at_custom_model,
    "getDefaultModels": choose_known_models,
    "putDefaultModels": choose_known_models,
    "getAgent": point_at_agent,
    "updateAgent": point_at_agent,
    "deleteAgent": point_at_doomed_agent,
    "createMemory": name_owner_of_memory,
    "searchMemories": rerank_by_real_model,
    "getMemory": point_at_memory,
    "updateMemory": keep_memory,
    "deleteMemory": point_at_doomed_memory,
    "listMemoryVersions": point_at_memory,
    "listJobs": list_in_default_workspace,
    "createJob": schedule,
    "previewSchedule": schedule,
    "getJob": point_at_job_of_scheduler,
    "updateJob": change_job,
    "deleteJob": point_at_doomed_job_of_scheduler,
    "pauseJob": point_at_doomed_job_of_scheduler,
    "resumeJob": point_at_paused_job,
    "runJobNow": point_at_doomed_job_of_scheduler,
    "listJobRuns": point_at_job_of_scheduler,
    "getJobRun": point_at_job_run,
    "cancelJobRun": lambda case: case.path_parameters.update(new_job_run()),
    "importMemories": upload_to_own_workspace,
    "purgeMemories": purge_nobody,
    "listSkills": list_in_default_workspace,
    "createSkill": make_own_skill,
    "getSkill": point_at_skill,
    "putSkill": replace_skill,
    "deleteSkill": point_at_doomed_skill,
    "getSkillContent": point_at_skill,
    "listSkillFiles": point_at_skill,
    "enableSkill": point_at_skill,
    "disableSkill": point_at_skill,
    "addSkillRepository": add_skill_repository,
    "getSkillRepository": point_at_skill_repository,
    "updateSkillRepository": point_at_skill_repository,
    "getSkillRepositoryProposal": point_at_proposal,
    "applySkillRepository": apply_proposal,
    "syncSkillRepository": point_at_skill_repository,
    "removeSkillRepository": point_at_doomed_skill_repository,
    "listCorpora": list_in_default_workspace,
    "createCorpus": make_corpus,
    "getCorpus": point_at_corpus,
    "updateCorpus": change_corpus,
    "deleteCorpus": point_at_doomed_corpus,
    "getCorpusAccess": point_at_corpus,
    "putCorpusAccess": grant_to_ourselves,
    "reindexCorpus": point_at_corpus,
    "listDocuments": point_at_corpus,
    "addDocuments": add_texts,
    "getDocument": point_at_document,
    "updateDocument": point_at_document,
    "deleteDocument": point_at_doomed_document,
    "listChunks": point_at_document,
    "listIngestionJobs": point_at_corpus,
    "getIngestionJob": point_at_job,
    "cancelIngestionJob": point_at_doomed_job,
    "retryIngestionJob": point_at_cancelled_job,
    "searchCorpus": search_real_corpus,
    "searchCorpora": search_real_corpora,
    "uploadFile": upload_to_own_workspace,
    "createUpload": begin_small_upload,
    "appendUpload": add_to_upload,
    "completeUpload": complete_empty_upload,
    "abortUpload": abort_new_upload,
    "getFile": point_at_file,
    "updateFile": point_at_file,
    "deleteFile": point_at_doomed_file,
    "downloadFile": point_at_file,
    "getFileText": point_at_file,
    "listWorkspaces": lambda case: case.query and case.query.pop("organization_id", None),
    "createWorkspace": name_real_terms,
    "getWorkspace": point_at_workspace,
    "updateWorkspace": lambda case: (point_at_workspace(case), name_real_terms(case)),
    "deleteWorkspace": point_at_doomed_workspace,
    "listWorkspaceMembers": point_at_workspace,
    "putWorkspaceMember": point_at_own_membership,
    "removeWorkspaceMember": point_at_own_membership,
    "getWorkspaceConfig": point_at_workspace,
    "updateWorkspaceConfig": change_real_settings,
    "getWorkspaceTrust": point_at_workspace,
    "trustWorkspace": trust_what_was_read,
    "revokeWorkspaceTrust": point_at_workspace,
    "getPlan": point_at_plan,
    "getPlanContent": point_at_plan,
    "updatePlan": change_plan,
    "listPlanVersions": point_at_plan,
    "deletePlan": lambda case: case.path_parameters.update(plan_id=new_plan()),
    "approvePlan": point_at_doomed_plan,
    "rejectPlan": point_at_doomed_plan,
    "startProviderOauth": begin_to_connect,
    "completeProviderOauth": come_back_to_connect,
    "getProviderOauth": point_at_provider_setting,
    "revokeProviderOauth": point_at_provider_setting,
    "createCatalog": describe_models,
    "getStorage": lambda case: act_as(case, OPERATOR_KEY),
    "updateStorage": change_limits_of_storage,
    "testStorage": lambda case: act_as(case, OPERATOR_KEY),
    "getSchedulerStatus": lambda case: act_as(case, OPERATOR_KEY),
    "getWebSearchSettings": lambda case: act_as(case, OPERATOR_KEY),
    "updateWebSearchSettings": change_results_of_web_search,
    "getEmbedder": lambda case: act_as(case, OPERATOR_KEY),
    "updateEmbedder": change_batches,
    "testEmbedder": lambda case: act_as(case, OPERATOR_KEY),
    "listCatalogs": lambda case: act_as(case, OPERATOR_KEY),
    "getCatalog": point_at_catalog,
    "putCatalog": lambda case: (point_at_catalog(case), describe_models(case)),
    "deleteCatalog": point_at_catalog,
    "getQuota": point_at_quota,
    "putQuota": lambda case: (point_at_quota(case), spare_the_fuzzer(case)),
    "deleteQuota": point_at_quota,
    "getUsage": name_a_real_period,
    "listAuditLogs": find_in_own_organization,
    "exportAuditLogs": find_in_own_organization,
    "verifyAuditChain": verify_without_anchor,
    "getAuditLog": point_at_entry,
    "createSession": name_real_things,
    "importSession": import_for_this_server,
    "createQuery": name_real_things,
    "streamQuery": name_real_things,
    "estimateQuery": name_real_things,
    "generateImage": ask_as_configured,
    "synthesizeSpeech": ask_as_configured,
    "transcribeAudio": send_a_sound,
    "createMessage": name_real_model,
    "countMessageTokens": name_real_model,
    "getCompatModel": lambda case: case.path_parameters.update(model_id=MODEL),
    "registerUser": register_with_plain_data,
    "login": log_in_as_ourselves,
    "refreshToken": use_fresh_refresh_token,
    "logout": log_out_newcomer,
    "revokeLogin": point_at_doomed_login,
    "pollDeviceLogin": point_at_allowed_device,
    "getDeviceLogin": look_at_device,
    "replyDeviceLogin": reply_as_new_person,
    "startOidcLogin": lambda case: case.path_parameters.update(provider="corp"),
    "completeOidcLogin": refuse_at_provider,
    "linkOidcLogin": link_as_ourselves,
    "getOidcLink": name_provider,
    "unlinkOidcLogin": name_provider,
    "redeemLoginCode": come_back_with_code,
}


# What they end by an id that other cases need: the fuzzer tries ids again that it has seen in answers.
SPARED = {
    "deleteSession": "session_id",
    "deleteCorpus": "corpus_id",
    "deleteDocument": "document_id",
    "deleteMemory": "memory_id",
    "deleteJob": "job_id",
    "deleteSkill": "skill_id",
    "removeSkillRepository": "repository_id",
    "deleteFile": "file_id",
    "deleteAgent": "agent_id",
    "deleteWorkspace": "workspace_id",
    "deleteGroup": "group_id",
    "deleteOrganization": "org_id",
    "removeOrgMember": "user_id",
    "putOrgMember": "user_id",
    "deleteUser": "user_id",
    "updateUser": "user_id",
}


def ends_what_is_kept(case):
    ids = [thing for thing in kept.values() if isinstance(thing, str)] + [kept.get("query", {}).get("session_id")]
    ids += [home(), own_id()]
    return (case.path_parameters or {}).get(SPARED.get(operation_id(case))) in ids


def spare_own_memories(case):
    """Others still ask for the memories of the fuzzer itself, which one word of chance would end."""
    if isinstance(case.body, dict) and case.body.get("scope") == "user":
        case.body = {"agent_slug": "nobody", **case.body, "scope": "agent"}


def operation_id(case):
    return case.operation.definition.raw["operationId"]


def is_valid(case):
    return case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE


def is_linked(case):
    """In the stateful phase the ids come from the answers before; to change them would blind its checks."""
    return case.meta is not None and case.meta.phase.name.value == "stateful"


def drop_broken_headers(case):
    """The coverage phase takes "0" for a valid value of any header, whatever its pattern is."""
    for parameter in case.operation.headers:
        sent = (case.headers or {}).get(parameter.name)
        pattern = schema_of(case, parameter).get("pattern")
        if sent is not None and pattern is not None and not re.search(pattern, str(sent)):
            del case.headers[parameter.name]


def drop_invented_cursor(case):
    """A page after the first is asked for with what the one before has said; the journeys do that."""
    if case.query and "cursor" in case.query:
        del case.query["cursor"]


def schema_of(case, parameter):
    schema = parameter.definition["schema"]
    if "$ref" in schema:
        return case.operation.schema.raw_schema["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    return schema


@schemathesis.hook
def before_call(context, case, kwargs):
    name = operation_id(case)
    # Where a browser is sent belongs to somebody else's contract.
    kwargs["allow_redirects"] = False
    if case.path_parameters and case.path_parameters.get("key_id") == OWN_KEY_ID:
        point_at_doomed_key(case)
    if name in SPARED and not is_linked(case) and ends_what_is_kept(case):
        POINTERS[name](case)
    if name == "purgeMemories":
        spare_own_memories(case)
    if name == "streamEvents":
        end_by_itself(case)
    if not is_valid(case):
        return
    drop_broken_headers(case)
    # A key stands for one request: with another body it is refused, however valid both are.
    if case.headers and "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = f"fuzz-{os.urandom(8).hex()}"
    if is_linked(case):
        return
    calls[name] += 1
    if calls[name] % 2 == 1:
        drop_invented_cursor(case)
        if name in POINTERS:
            POINTERS[name](case)


# Failures that are none


def cursor_is_invented(case, response):
    """A cursor is opaque and bound to its list: one that nobody was given is refused."""
    return b'"code":"invalid_cursor"' in response.content


def event_is_yet_to_come(case, response):
    """A stream continues after an event that exists: the contract cannot say how many there are."""
    return operation_id(case).startswith("stream") and b"has no event" in response.content


def unknown_member_holds_nul(case, response):
    """Under /v1, in the input of a tool, and in options for a provider members pass that the contract does not know; but no NUL in any text."""
    open_bodies = (
        *("createMessage", "countMessageTokens", "replyPermission", "importSession"),
        *("createProviderSetting", "updateProviderSetting", "putCustomModel"),
    )
    return operation_id(case) in open_bodies and b"holds a NUL character" in response.content


def block_is_not_of_its_type(case, response):
    """What a block needs depends on its type, and on those before it: the contract leaves that open."""
    if operation_id(case) not in ("createMessage", "countMessageTokens") or response.status_code != 400:
        return False
    said = (b"is required", b"must be ", b"must not be empty", b"tool_use", b"tool_result", b"stands in messages", b"two tools are called")
    also = (b"brings no tool", b"thread: ", b"when the thread began", b"instructions only", b"files are not kept")
    return any(words in response.content for words in said + also)


def moment_has_passed(case, response):
    """A key, an invitation or a memory expires in the future: the contract cannot say what time it is."""
    if operation_id(case) in ("createMemory", "updateMemory"):
        return b"lies in the past" in response.content
    return operation_id(case) in ("createApiKey", "updateApiKey", "createInvitation") and b"a moment in the future" in response.content


def period_cannot_be(case, response):
    """A period has a beginning before its end, in days that there are: the contract cannot say so."""
    return operation_id(case) == "getUsage" and b"The period cannot be" in response.content


def code_is_invented(case, response):
    """A code is opaque: one that nobody was given lets nobody in."""
    return b'"code":"expired_token"' in response.content or b'"code":"oidc_login_invalid"' in response.content


def body_is_too_much(case, response):
    """A schema counts the members of one list, and not what all lists hold together."""
    return b"The body holds more than" in response.content


def settings_are_not_right(case, response):
    """What may stand in a section of the settings, the schema of the settings file says, and not the contract."""
    return operation_id(case) == "updateWorkspaceConfig" and b"The settings would not be right" in response.content


def device_waits(case, response):
    """What has become of a device login, RFC 8628 says with 400."""
    if operation_id(case) != "pollDeviceLogin":
        return False
    return response.json()["code"] in ("authorization_pending", "slow_down", "access_denied")


def attempt_is_invented(case, response):
    """Which attempts to connect a provider there are, the contract cannot say."""
    return operation_id(case) in ("completeProviderOauth", "completeMcpOauth") and response.json()["code"] == "oauth_invalid"


def provider_is_not_right(case, response):
    """What goes together in a setting of a provider depends on its parts: the contract describes each of them alone."""
    choices = ("getDefaultModels", "putDefaultModels")
    if operation_id(case) not in ("createProviderSetting", "updateProviderSetting", "startProviderOauth", *choices):
        return False
    return any(error["code"] in ("scope", "provider", "oauth") for error in response.json().get("errors", []))


def mcp_server_is_not_right(case, response):
    """What goes together in an MCP server, and whether people log in to it, depends on its type: the contract describes each member alone."""
    if operation_id(case) not in ("createMcpServer", "updateMcpServer", "startMcpOauth"):
        return False
    return any(error["code"] in ("scope", "mcp_server") for error in response.json().get("errors", []))


def file_is_not_last(case, response):
    """In which order the parts of a form come, a schema cannot say: what follows the file counts as absent."""
    name = operation_id(case)
    if name == "createSkill" and b"body/scope: is required" in response.content:
        return True
    forms = ("uploadFile", "transcribeAudio", "importMemories", "createSkill", "validateSkill", "putSkill")
    return name in forms and b"send it last" in response.content


def is_no_range(case, response):
    """A pattern cannot tell whether digits and dots are an address."""
    return operation_id(case) in ("createApiKey", "updateApiKey") and b"a range in CIDR form" in response.content


def is_no_time_zone(case, response):
    """The names of time zones are more than a contract can list."""
    return operation_id(case) == "updatePreferences" and b"IANA time zone" in response.content


def overlap_is_too_large(case, response):
    """How much a passage may repeat depends on its size, which may be one from before."""
    return operation_id(case) in ("createCorpus", "updateCorpus") and b"The overlap of passages is too large" in response.content


def nothing_is_named(case, response):
    """Documents are made from at least one of three lists: the contract says so in words."""
    return operation_id(case) == "addDocuments" and b"Nothing is named to make documents from" in response.content


def is_granted_twice(case, response):
    """A schema tells entries of a list apart by all of their members, and not by one."""
    return operation_id(case) == "putCorpusAccess" and b"is named twice" in response.content


def member_is_refused(case, response):
    """A member `__proto__` is refused wherever it stands: a schema would have to say so of each object."""
    return b"No member may be called __proto__" in response.content


def is_no_schedule(case, response):
    """Which patterns and time zones there are, and what is still to come, the contract cannot say."""
    if operation_id(case) not in ("createJob", "updateJob", "previewSchedule"):
        return False
    kinds = ("cron", "timezone", "oneOf", "schedule", "format")
    return any(error["code"] in kinds for error in response.json().get("errors", []))


def owner_is_not_of_its_scope(case, response):
    """Which owner a memory needs depends on its scope: the contract says so in words."""
    return operation_id(case).endswith(("Memory", "Memories")) and b"with the scope" in response.content


def needs_an_organization(case, response):
    """Who administers several organizations has to name one: the contract cannot say who does."""
    return operation_id(case) in ("createUser", "updateUser") and b"is needed where there are several" in response.content


NO_FAILURES = (
    block_is_not_of_its_type,
    code_is_invented,
    device_waits,
    attempt_is_invented,
    provider_is_not_right,
    mcp_server_is_not_right,
    body_is_too_much,
    settings_are_not_right,
    file_is_not_last,
    is_no_range,
    is_no_time_zone,
    overlap_is_too_large,
    nothing_is_named,
    is_granted_twice,
    member_is_refused,
    is_no_schedule,
    owner_is_not_of_its_scope,
    needs_an_organization,
    period_cannot_be,
    cursor_is_invented,
    event_is_yet_to_come,
    moment_has_passed,
    unknown_member_holds_nul,
)


def is_declared(case, response):
    """Statuses by which a valid request is refused for what only a vendor, or the bytes of a file, can tell."""
    name, status = operation_id(case), response.status_code
    if name == "downloadFile":
        return status == 416
    # Whether there is text in a file, its bytes tell; how large one may be, a setting of the organization.
    if name == "getFileText":
        return status == 422 and response.json()["code"] == "file_unreadable"
    if name == "createUpload":
        return status == 413
    # What a SKILL.md has to say, and what an archive may hold, its bytes tell.
    if name in ("createSkill", "putSkill"):
        return status == 422 and response.json()["code"] == "skill_invalid"
    # There are no more than fifty of them, and what one proposes only a git server knows.
    if name in ("addSkillRepository", "applySkillRepository"):
        return status == 409
    # Which models there are, the contract cannot say.
    if name == "putDefaultModels":
        return status == 422 and response.json()["code"] == "model_unknown"
    # Nor which of them rerank.
    if name in ("searchCorpus", "searchCorpora", "searchMemories"):
        return status == 422 and response.json()["code"] == "reranker_unsuited"
    # Whether an MCP server may be a process depends on who asks, and whether it is there, on itself.
    if name in ("createMcpServer", "updateMcpServer"):
        return status == 403 and response.json()["code"] == "restricted_section"
    if name in ("testMcpServer", "startMcpOauth", "listMcpTools", "listMcpResources", "listMcpPrompts"):
        return status == 502
    # The provider of the fuzzer's settings is nowhere.
    if name == "testProviderSetting":
        return status == 502
    if name not in ("generateImage", "synthesizeSpeech", "transcribeAudio") or status not in (415, 501, 502):
        return False
    return response.json()["code"] in ("unsupported_media_type", "media_not_configured", "provider_request_refused")


def is_missing_in_body(case, response):
    """A link makes the ids of the path true, and those in a body are chance: what it names need not be there."""
    said = re.match(r"(?:There is no such|No) ([a-zA-Z ]+?)(?:,| has )", response.json().get("detail", ""))
    if said is None or not isinstance(case.body, dict):
        return False
    noun = said.group(1)
    of_path = {name.removesuffix("_id").replace("_", " ") for name in case.path_parameters or {}}
    return noun not in of_path and any(f"{noun} ".startswith(f"{named} ") for named in nouns_in(case.body))


def nouns_in(body):
    """What the members of a body name by an id or a slug: of `at_message_id`, `at message` and `message`."""
    if isinstance(body, list):
        return {noun for item in body for noun in nouns_in(item)}
    if not isinstance(body, dict):
        return set()
    nouns = {noun for value in body.values() for noun in nouns_in(value)}
    for name in body:
        if found := re.fullmatch(r"(\w+)_(?:ids?|slug)", name):
            words = found.group(1).split("_")
            nouns |= {" ".join(words[at:]) for at in range(len(words))}
    return nouns


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if isinstance(failure, EnsureResourceAvailability) and is_missing_in_body(case, response):
        return False
    if isinstance(failure, (RejectedPositiveData, ServerError)) and is_declared(case, response):
        return False
    excused = isinstance(failure, RejectedPositiveData) and response.status_code == 400
    return not (excused and any(excuse(case, response) for excuse in NO_FAILURES))


@schemathesis.hook
def after_call(context, case, response):
    name = operation_id(case)
    # Requests with another method come along, to see that the path refuses it.
    if response.request.method == case.operation.method.upper():
        statuses[name][response.status_code] += 1
    if name == "refreshToken" and response.status_code == 200:
        kept["refresh_token"] = response.json()["refresh_token"]
    # Only so many devices may wait at once; and who is let in can go on.
    if name == "startDeviceLogin" and response.status_code == 200:
        reply_to_device(response.json()["user_code"], "allow")


@atexit.register
def write_statuses():
    with open(STATUSES_FILE, "w", encoding="utf-8") as file:
        json.dump(statuses, file)
