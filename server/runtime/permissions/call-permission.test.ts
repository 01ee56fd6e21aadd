/** A person changes the input of a tool call before allowing it. */
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { PermissionRule } from '../../contract/api.ts';
import { type Attempt, hookBench, hookFolder, type ScriptedCall, saying } from '../hooks/test-hooks.ts';
import { testQuery } from '../test-query.ts';
import { noTerms } from '../workspace-terms.ts';

const { attempt } = hookBench();
const write: ScriptedCall = { name: 'write', arguments: { file_path: 'made.txt', content: 'A' } };
const bash = (command: string): ScriptedCall => ({ name: 'bash', arguments: { command } });
const wait = { onUnanswered: 'wait' } as const;
const allowed: Pick<Attempt, 'query' | 'answer'> = { query: wait, answer: 'allow_once' };

test('the call runs as the person changed it, and the model is told what ran', async () => {
  const folder = hookFolder();
  const { result, started, resolved, requests } = await attempt(folder, {
    ...allowed,
    call: write,
    updatedInput: { file_path: 'else.txt' },
  });
  expect(result?.is_error).toBe(false);
  expect(result?.content).toContain('[The person changed the input of this call: {"file_path":"else.txt"}]');
  expect(folder.has('made.txt')).toBe(false);
  expect(folder.read('else.txt')).toBe('A');
  expect(started).toEqual([write.arguments]);
  expect(requests).toMatchObject([{ params: { file_path: 'made.txt' }, updated_input: null }]);
  expect(resolved).toMatchObject([{ decision: 'allow_once', updated_input: { file_path: 'else.txt' } }]);
});

test('a whole input that is sent back as it was changes nothing', async () => {
  const folder = hookFolder();
  const { result } = await attempt(folder, { ...allowed, call: write, updatedInput: write.arguments });
  expect(result).toMatchObject({
    is_error: false,
    content: expect.not.stringContaining('The person changed'),
  });
  expect(folder.read('made.txt')).toBe('A');
});

test("what the tool does not take in a changed input is told as the person's, and nothing runs", async () => {
  const folder = hookFolder();
  for (const updatedInput of [{ file_path: 7 }, { path: 'x' }, { file_path: '../out.txt\0' }]) {
    const { result } = await attempt(folder, { ...allowed, call: write, updatedInput });
    expect(result).toMatchObject({ is_error: true });
    expect(result?.content).toContain(
      'The person who allowed this call changed its input, and it cannot run so: ',
    );
  }
  expect(folder.has('made.txt')).toBe(false);
});

const rule: PermissionRule = { tool: 'bash', decision: 'deny', pattern: 'rm *' };
const ruled = { ...wait, session: { ...testQuery('').session, permissionRules: [rule] } };

test('a changed input is decided again: what a rule denies does not run, whoever wrote it', async () => {
  const folder = hookFolder();
  folder.write('kept.txt', 'kept', 0o644);
  const { result, requests } = await attempt(folder, {
    ...allowed,
    query: ruled,
    call: bash('touch a'),
    updatedInput: { command: 'touch a; rm kept.txt' },
  });
  expect(result).toMatchObject({ is_error: true });
  expect(result?.content).toContain('Permission denied for the changed input. A rule denies bash(rm *)');
  expect(requests).toHaveLength(1);
  expect([folder.has('kept.txt'), folder.has('a')]).toEqual([true, false]);
});

test('a rule that comes while a person is asked denies the call, though they allow it', async () => {
  const folder = hookFolder();
  const rules: PermissionRule[] = [];
  const { result, requests } = await attempt(folder, {
    query: wait,
    call: bash('touch a'),
    options: { workspaceTerms: async () => ({ ...noTerms, permissionRules: rules }) },
    begun: async ({ runtime, transcript, runId }) => {
      const asked = async () => {
        const events = await transcript.readEvents(runId, 0, 1000);
        return events.flatMap(({ data }) =>
          'type' in data && data.type === 'permission_requested' ? [data.request.id] : [],
        );
      };
      await expect.poll(asked).toHaveLength(1);
      rules.push({ tool: 'bash', decision: 'deny', pattern: 'touch *' });
      const [id = ''] = await asked();
      transcript.answerPermission(id, 'allow_once');
      runtime.wake(runId);
    },
  });
  expect(requests).toHaveLength(1);
  expect(result?.content).toContain('Permission denied. A rule denies bash(touch *)');
  expect(folder.has('a')).toBe(false);
});

test.each([
  ['a name nearby', 'view', { file_path: 'secret/passwor' }],
  ['that there is none', 'view', { file_path: 'secret/x/y' }],
  ['that it is a folder', 'view', { file_path: 'secret' }],
  ['that it has not been viewed', 'write', { file_path: 'open/passwords.txt', content: 'x' }],
  [
    'that a text is not in it',
    'edit',
    { file_path: 'secret/passwords.txt', old_string: 'a', new_string: 'b' },
  ],
])('a tool does not tell of what a rule denies to it: %s', async (_case, name, args) => {
  const folder = hookFolder();
  mkdirSync(join(folder.path, 'secret'));
  folder.write('secret/passwords.txt', 'x', 0o644);
  symlinkSync('secret', join(folder.path, 'open'));
  const permissionRules = ['secret', 'secret/**'].map((pattern) => {
    return { tool: name, pattern, decision: 'deny' as const };
  });
  const query = { ...wait, session: { ...testQuery('').session, permissionRules } };
  const { result } = await attempt(folder, { query, call: { name, arguments: args } });
  expect(result?.is_error).toBe(true);
  expect(result?.content).toMatch(/^Permission denied\. A rule denies \w+\(secret(\/\*\*)?\)\.$/);
});

test('nor does it tell whoever changed the input', async () => {
  const folder = hookFolder();
  mkdirSync(join(folder.path, 'secret'));
  const denying: PermissionRule = { tool: 'edit', decision: 'deny', pattern: 'secret/**' };
  folder.write('a', 'a', 0o644);
  const edit = { file_path: 'a', old_string: 'a', new_string: 'b' };
  const { results } = await attempt(folder, {
    ...allowed,
    query: { ...wait, session: { ...testQuery('').session, permissionRules: [denying] } },
    call: [
      { name: 'view', arguments: { file_path: 'a' } },
      { name: 'edit', arguments: edit },
    ],
    updatedInput: { file_path: 'secret/b' },
  });
  expect(results[1]?.content).toContain(
    'Permission denied for the changed input. A rule denies edit(secret/**)',
  );
});

test('hooks are asked about what the model wanted, and not again about what the person made of it', async () => {
  const folder = hookFolder();
  const hook = 'cat >> asked; ' + `printf '%s' '{"updated_input":{"content":"B"}}'`;
  const { result } = await attempt(folder, {
    ...allowed,
    call: write,
    hooks: [{ command: hook }],
    updatedInput: { file_path: 'else.txt' },
  });
  expect(folder.read('else.txt')).toBe('B');
  expect(folder.read('asked').match(/pre_tool_use/g) ?? []).toHaveLength(1);
  expect(result?.content).toContain('[The person changed the input of this call: {"file_path":"else.txt"}]');
  expect(result?.content).toContain('[A hook changed the input of this call: content.]');
  const denied = await attempt(hookFolder(), {
    ...allowed,
    call: write,
    hooks: [{ command: saying({ decision: 'deny' }) }],
    updatedInput: { file_path: 'else.txt' },
  });
  expect(denied.requests).toEqual([]);
});

test('a lasting answer remembers the changed call and not the one that was asked about', async () => {
  const commands = ['touch a', 'touch b', 'touch a'];
  const { requests, results } = await attempt(hookFolder(), {
    query: wait,
    answer: 'allow_session',
    call: commands.map(bash),
    updatedInput: { command: 'touch b' },
  });
  expect(results.every(({ is_error }) => !is_error)).toBe(true);
  expect(requests.map(({ params }) => params.command)).toEqual(['touch a', 'touch a']);
});

test('a changed call that cannot be remembered is allowed this once, and people are told so', async () => {
  const { requests, notices, results } = await attempt(hookFolder(), {
    query: wait,
    answer: 'allow_session',
    call: [bash('touch a'), bash('touch a')],
    updatedInput: { command: 'eval "touch b"' },
  });
  expect(results.map(({ is_error }) => is_error)).toEqual([false, false]);
  expect(requests).toHaveLength(2);
  expect(notices).toEqual([
    expect.stringContaining('only this once'),
    expect.stringContaining('only this once'),
  ]);
});

test('the first answer stands in memory, too, and a refusal changes nothing', async () => {
  const folder = hookFolder();
  let again: ((requestId: string) => void) | undefined;
  const { result, resolved, requests } = await attempt(folder, {
    query: wait,
    answer: 'deny',
    call: write,
    updatedInput: { file_path: 'else.txt' },
    begun: async ({ transcript }) => {
      again = (id) => transcript.answerPermission(id, 'allow_once');
    },
  });
  expect(result?.content).toBe('Permission denied.');
  expect(resolved).toEqual([expect.not.objectContaining({ updated_input: expect.anything() })]);
  expect(folder.has('else.txt')).toBe(false);
  expect(() => again?.(requests[0]?.id ?? '')).toThrow(expect.objectContaining({ code: 'already_answered' }));
});
