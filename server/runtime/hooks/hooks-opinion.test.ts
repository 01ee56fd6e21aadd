/** What hooks say about a tool call, in each of their forms, and what many of them say together. */
import { describe, expect, test } from 'vitest';
import type { Hook } from '../../contract/config.ts';
import { hookBench, hookFolder, type ScriptedCall, saying } from './test-hooks.ts';

const { attempt } = hookBench();

/** Needs permission, which these queries can ask nobody for: it runs only where something allows it. */
const guarded: ScriptedCall = { name: 'write', arguments: { file_path: 'made.txt', content: 'A' } };
const allowing = saying({ decision: 'allow' });
const denying = saying({ decision: 'deny', reason: 'not here' });
const all = (...commands: readonly string[]): readonly Hook[] => commands.map((command) => ({ command }));

describe('what a hook says', () => {
  test.each([
    ['allow', { decision: 'allow' }],
    [
      'allow, with a version and members that are not ours',
      { version: 1, decision: 'allow', reason: null, more: [] },
    ],
    [
      'allow, as other agents write it',
      { hookSpecificOutput: { hookEventName: 'PreToolUse', permissionDecision: 'allow' } },
    ],
  ])('`hooks.pre_tool_use[].command` allows without a permission request: %s', async (_case, output) => {
    const folder = hookFolder();
    const { result, types } = await attempt(folder, { hooks: all(saying(output)), call: guarded });
    expect(result).toMatchObject({ is_error: false });
    expect(folder.read('made.txt')).toBe('A');
    expect(types).not.toContain('permission_requested');
  });

  test.each([
    ['deny', { decision: 'deny', reason: 'not here' }],
    [
      'deny, as other agents write it',
      { hookSpecificOutput: { permissionDecision: 'deny', permissionDecisionReason: 'not here' } },
    ],
    [
      'both forms, one of which denies',
      {
        decision: 'allow',
        hookSpecificOutput: { permissionDecision: 'deny', permissionDecisionReason: 'not here' },
      },
    ],
  ])('`hooks.pre_tool_use[].command` denies: %s', async (_case, output) => {
    const folder = hookFolder();
    const query = { permissionMode: 'bypass' } as const;
    const { result } = await attempt(folder, { hooks: all(saying(output)), call: guarded, query });
    expect(result).toMatchObject({
      is_error: true,
      content: 'Permission denied. A hook denied it: not here',
    });
    expect(folder.has('made.txt')).toBe(false);
  });

  test.each([
    ['nothing', {}],
    ['null', { decision: null, halt: null, context: null, updated_input: null, hookSpecificOutput: null }],
    ['ask', { hookSpecificOutput: { permissionDecision: 'ask' } }],
    ['not to halt', { halt: false }],
  ])('`hooks.pre_tool_use[].command` leaves the decision to others: %s', async (_case, output) => {
    const folder = hookFolder();
    const query = { onUnanswered: 'wait' } as const;
    const asked = await attempt(folder, {
      hooks: all(saying(output)),
      call: guarded,
      query,
      answer: 'allow_once',
    });
    expect(asked.requests).toHaveLength(1);
    expect(asked.result).toMatchObject({ is_error: false });
  });

  test.each([
    ['allow', { decision: 'allow', reason: 'fine' }, { decision: 'allow', reason: 'fine' }],
    ['deny', { decision: 'deny', reason: 'no' }, { decision: 'deny', reason: 'no' }],
    ['halt', { halt: true, decision: 'allow', reason: 'enough' }, { decision: 'halt', reason: 'enough' }],
    ['a changed input', { updated_input: { content: 'B' } }, { decision: 'none', changed_keys: ['content'] }],
    ['a note', { context: 'look' }, { decision: 'none', changed_keys: [] }],
    ['nothing', {}, null],
  ])('whoever watches is told what hooks decided: %s', async (_case, output, told) => {
    const { decided } = await attempt(hookFolder(), { hooks: all(saying(output)), call: guarded });
    const event = { type: 'hook_decided', tool_name: guarded.name, reason: '', changed_keys: [], ...told };
    expect(decided).toEqual(told === null ? [] : [{ ...event, tool_call_id: expect.any(String) }]);
  });

  test('a halt in words stops the run as the exit code does', async () => {
    const { done, notices } = await attempt(hookFolder(), {
      hooks: all(saying({ halt: true, decision: 'allow', reason: 'enough' })),
      call: guarded,
      query: { permissionMode: 'accept_edits' },
    });
    expect(done).toMatchObject({
      status: 'interrupted',
      stop_reason: 'interrupted',
      interrupt_reason: 'hook',
    });
    expect(notices).toEqual(['A hook stopped the run: enough']);
  });

  test('its context reaches the model beside the result, marked as a hook’s; with a refusal, too', async () => {
    const folder = hookFolder();
    const output = { decision: 'allow', context: ['first', 'second\u0000'] };
    const { result } = await attempt(folder, { hooks: all(saying(output)), call: guarded });
    expect(result?.is_error).toBe(false);
    expect(result?.content).toMatch(/\n\n\[A hook adds:\]\nfirst\nsecond\ufffd$/);
    const other = { hookSpecificOutput: { permissionDecision: 'deny', additionalContext: 'third' } };
    const denied = await attempt(folder, { hooks: all(saying(other)), call: guarded });
    expect(denied.result?.content).toBe(
      'Permission denied. A hook denied it: it gave no reason.\n\n[A hook adds:]\nthird',
    );
  });

  test('a reason and a context are cut where nobody would read on', async () => {
    const long = 'x'.repeat(100_000);
    const { result } = await attempt(hookFolder(), {
      hooks: all(saying({ decision: 'deny', reason: long, context: long })),
      call: guarded,
    });
    expect(result?.content.length).toBeLessThan(35_000);
    const complaint = 'cat > /dev/null; head -c 100000 /dev/zero | tr "\\0" x >&2; exit 2';
    const denied = await attempt(hookFolder(), { hooks: all(complaint), call: guarded });
    expect(denied.result?.content.length).toBeLessThan(5000);
  });
});

describe('a hook that changes the input', () => {
  const renaming = saying({ updated_input: { file_path: 'other.txt' } });

  test('is heard: a person is asked for what really runs, and sees it', async () => {
    const folder = hookFolder();
    const query = { onUnanswered: 'wait' } as const;
    const { started, requests, notices, result, done } = await attempt(folder, {
      hooks: all(renaming),
      call: guarded,
      query,
      answer: 'allow_once',
    });
    const input = { file_path: 'other.txt', content: 'A' };
    expect(started).toEqual([input]);
    expect(requests[0]?.params).toMatchObject({ file_path: 'other.txt' });
    expect(requests[0]?.diff).toContain('other.txt');
    expect(notices).toEqual(['A hook changed the input of the tool write: file_path.']);
    expect(result?.content).toContain('[A hook changed the input of this call: file_path.]');
    expect(folder.has('made.txt')).toBe(false);
    expect(folder.read('other.txt')).toBe('A');
    // What the model said stays what it said.
    expect(done.tool_uses[0]?.input).toEqual(guarded.arguments);
  });

  test('is held to the tool: an input that the tool cannot use is refused', async () => {
    const { result } = await attempt(hookFolder(), {
      hooks: all(saying({ decision: 'allow', updated_input: { file_path: 7 } })),
      call: guarded,
    });
    expect(result).toMatchObject({ is_error: true, content: expect.stringContaining('Wrong input') });
  });

  test('is not heard where the call is denied or the run stops', async () => {
    for (const last of [denying, saying({ halt: true })]) {
      const { started, result } = await attempt(hookFolder(), { hooks: all(renaming, last), call: guarded });
      expect(started).toEqual([guarded.arguments]);
      expect(result?.content).not.toContain('changed the input');
    }
  });

  test('goes over what an earlier one changed, member by member', async () => {
    const folder = hookFolder();
    const hooks = all(
      saying({ decision: 'allow', updated_input: { file_path: 'one.txt', content: 'one' } }),
      `sleep 0.1; ${saying({ hookSpecificOutput: { updatedInput: { content: 'two' } } })}`,
    );
    const { started } = await attempt(folder, { hooks, call: guarded });
    expect(started).toEqual([{ file_path: 'one.txt', content: 'two' }]);
    expect(folder.read('one.txt')).toBe('two');
  });
});

describe('many hooks', () => {
  test('run side by side, each seeing the call as the model made it', async () => {
    const folder = hookFolder();
    const meet = (mine: string, other: string) =>
      `cat > ${mine}; n=0; while [ ! -s ${other} ]; do n=$((n+1)); [ $n -gt 500 ] && exit 2; sleep 0.1; done; ${saying({ updated_input: { content: mine } })}`;
    const { result } = await attempt(folder, {
      hooks: all(meet('a', 'b'), meet('b', 'a')),
      call: guarded,
      query: { permissionMode: 'accept_edits' },
    });
    expect(result).toMatchObject({ is_error: false });
    expect(folder.read('made.txt')).toBe('b');
    expect(JSON.parse(folder.read('b'))).toMatchObject({ tool_input: guarded.arguments });
    expect(folder.read('b')).toBe(folder.read('a'));
  });

  test('a denial beats what others allow, and the reasons of all who deny are told in the order of the settings', async () => {
    const { result } = await attempt(hookFolder(), {
      hooks: all(
        allowing,
        `sleep 0.2; ${denying}`,
        'cat > /dev/null; echo nor there >&2; exit 2',
        saying({ decision: 'allow', reason: 'why not', context: 'c' }),
      ),
      call: guarded,
    });
    expect(result?.content).toBe(
      'Permission denied. A hook denied it: not here\nnor there\n\n[A hook adds:]\nc',
    );
  });

  test('a halt stays, whoever else allows or denies', async () => {
    const { done, notices } = await attempt(hookFolder(), {
      hooks: all(denying, 'cat > /dev/null; echo enough >&2; exit 49', allowing),
      call: guarded,
    });
    expect(done.interrupt_reason).toBe('hook');
    expect(notices).toEqual(['A hook stopped the run: enough']);
  });

  test('one that says nothing does not take back what another allows; one that wants a person asked does', async () => {
    const neutral = await attempt(hookFolder(), { hooks: all('true', allowing, 'exit 3'), call: guarded });
    expect(neutral.result).toMatchObject({ is_error: false });
    const asking = saying({ hookSpecificOutput: { permissionDecision: 'ask' } });
    const asked = await attempt(hookFolder(), { hooks: all(allowing, asking), call: guarded });
    expect(asked.result?.content).toContain("needs a person's permission");
  });

  test('the same command runs once, and is strict if it is so anywhere', async () => {
    const folder = hookFolder();
    const command = 'echo . >> fired; exit 127';
    const { result, notices } = await attempt(folder, {
      hooks: [
        { command, on_error: 'allow' },
        { command, matcher: 'write' },
        { command, matcher: 'bash' },
      ],
      call: guarded,
    });
    expect(folder.read('fired')).toBe('.\n');
    expect(notices).toHaveLength(1);
    expect(result?.content).toContain('The hook hooks.pre_tool_use[0] failed');
  });
});

describe('what a hook allows', () => {
  test('is not allowed against a mode or a rule', async () => {
    const rule = { tool: 'write', decision: 'deny' } as const;
    const session = {
      id: 'ses_1',
      workspaceId: 'ws_1',
      agentSlug: 'coder',
      model: null,
      systemPrompt: null,
      permissionRules: [rule],
    };
    for (const [query, reason] of [
      [{ permissionMode: 'read_only' }, 'This run may only read'],
      [{ permissionMode: 'deny_unlisted' }, 'No rule allows the tool write'],
      [{ session }, 'A rule denies the tool write'],
    ] as const) {
      const folder = hookFolder();
      const { result } = await attempt(folder, { hooks: all(allowing), call: guarded, query });
      expect(result?.content).toContain(reason);
      expect(folder.has('made.txt')).toBe(false);
    }
  });

  test('holds for that one call', async () => {
    const folder = hookFolder();
    const once = `cat > /dev/null; [ -e seen ] && exit 0; touch seen; ${allowing}`;
    const { results } = await attempt(folder, { hooks: all(once), call: [guarded, guarded] });
    expect(results.map(({ is_error }) => is_error)).toEqual([false, true]);
  });
});
