/** What the fuzzer's hooks excuse, asked of the hooks themselves: a true failure has to stay one. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const python = join(import.meta.dirname, '../../.venv/bin/python3');

/** Reads [body, names in the path, detail] in JSON, and prints whether "Created resource not found" is reported. */
const script = `
import json, sys
from types import SimpleNamespace as Thing
import hooks
from schemathesis.openapi.checks import EnsureResourceAvailability
failure = EnsureResourceAvailability(operation="a", message="m", created_with="a", not_available_with="b")
for body, path, detail in json.loads(sys.argv[1]):
    operation = Thing(definition=Thing(raw={"operationId": "forkSession"}))
    case = Thing(body=body, path_parameters=dict.fromkeys(path, "x"), operation=operation)
    response = Thing(status_code=404, content=b"", json=lambda: {"detail": detail})
    print(hooks.filter_failure(None, failure, case, response))
`;

const missing = (noun: string) => `There is no such ${noun}, or it is not yours.`;

const cases = [
  // What only the body names need not be there.
  [{ at_message_id: 'msg_1' }, ['session_id'], missing('message'), 'False'],
  [{ grants: [{ group_ids: ['grp_1'] }] }, ['corpus_id'], missing('group'), 'False'],
  [{ agent_slug: 'x' }, ['session_id'], missing('agent profile'), 'False'],
  // What the path names was just made.
  [{ at_message_id: 'msg_1' }, ['session_id'], missing('session'), 'True'],
  [{ at_message_id: 'msg_1' }, ['session_id'], 'No session has this id, or it is not yours.', 'True'],
  [{ parent_session_id: 'ses_1' }, ['session_id'], missing('session'), 'True'],
  // What nobody named.
  [{}, ['session_id'], missing('message'), 'True'],
  [null, ['session_id'], missing('message'), 'True'],
] as const;

test('what a body names by chance may be missing, and never what a link has made', async () => {
  const names = ['URL', 'KEY', 'KEY_ID', 'OPERATOR_KEY', 'EMAIL', 'PASSWORD', 'MODEL', 'GIT_URL'];
  const variables = Object.fromEntries(names.map((name) => [`FUZZ_${name}`, 'unused']));
  const { stdout } = await promisify(execFile)(
    python,
    ['-B', '-c', script, JSON.stringify(cases.map((one) => one.slice(0, 3)))],
    {
      cwd: import.meta.dirname,
      // What the hooks write at their end goes nowhere.
      env: { ...process.env, ...variables, FUZZ_STATUSES_FILE: '/dev/null' },
    },
  );
  expect(stdout.trim().split('\n')).toEqual(cases.map((one) => one[3]));
});
