/** Hooks before tool calls, with real commands: what they are given, what they may say, and what becomes of the call. */
import { describe, expect, test } from 'vitest';
import type { ClientConfig, Hook } from '../../contract/config.ts';
import { createMemoryTranscript } from '../memory/memory-transcript.ts';
import { createRuntime } from '../runtime.ts';
import { hookBench, hookFolder, processesWith, type ScriptedCall, saying } from './test-hooks.ts';

const { attempt } = hookBench();

/** Needs permission, which these queries can ask nobody for: it runs only where something allows it. */
const guarded: ScriptedCall = { name: 'write', arguments: { file_path: 'made.txt', content: 'A' } };
/** Needs none. */
const free: ScriptedCall = { name: 'ls', arguments: { path: '.' } };
const only = (command: string, more: Partial<Hook> = {}): readonly Hook[] => [{ command, ...more }];

describe('which tool calls a hook meets', () => {
  test.each([
    ['a part of the name', 'rit', true],
    ['a whole name', '^(bash|write)$', true],
    ['letters of any case, where it says so', '(?i)WRITE', true],
    ['nothing, being empty', '', true],
    ['nothing, being absent', undefined, true],
    ['another tool', '^bash$', false],
    ['other letters', 'WRITE', false],
  ])('`hooks.pre_tool_use[].matcher` is searched for in the name: %s', async (_case, matcher, fires) => {
    const folder = hookFolder();
    const hook: Hook = { command: 'touch fired', ...(matcher !== undefined && { matcher }) };
    await attempt(folder, { hooks: [hook], call: guarded });
    expect(folder.has('fired')).toBe(fires);
  });

  test.each([
    [
      'matcher',
      { matcher: '(', command: 'true' },
      /matcher: "\(" is no regular expression in the syntax of RE2/,
    ],
    ['command', { command: ' ' }, /command is empty/],
    ['timeout', { command: 'true', timeout: 0 }, /timeout is 0: write a number of seconds above 0/],
  ])(
    'a hook that cannot work is refused at once where a program hands it in: its %s',
    async (_key, hook, message) => {
      const building = createRuntime({ hooks: { pre_tool_use: [{ command: 'true' }, hook] } });
      await expect(building).rejects.toThrow(message);
      await expect(building).rejects.toThrow('hooks.pre_tool_use[1].');
    },
  );

  test('`hooks.pre_tool_use[].matcher` that turns bad while a run is at work denies: no guard vanishes', async () => {
    const turning = (hook: Hook) => {
      let asked = 0;
      return () => ({ hooks: { pre_tool_use: asked++ === 0 ? [] : [hook] } });
    };
    const bad = { matcher: '(', command: 'true' };
    const strict = await attempt(hookFolder(), { settings: turning(bad), call: free });
    expect(strict.result).toMatchObject({ is_error: true });
    expect(strict.result?.content).toContain(
      'The hook hooks.pre_tool_use[0] failed: its matcher "(" is no regular',
    );
    const lenient = await attempt(hookFolder(), {
      settings: turning({ ...bad, on_error: 'allow' }),
      call: free,
    });
    expect(lenient.result).toMatchObject({ is_error: false });
  });

  test('`hooks.pre_tool_use` is read anew at each tool call: what was trusted until now stops at once', async () => {
    const folder = hookFolder();
    const config = { hooks: { pre_tool_use: [{ command: 'echo . >> fired' }] } };
    const settings = (): ClientConfig => (folder.has('fired') ? {} : config);
    await attempt(folder, { settings, call: [free, free, free] });
    expect(folder.read('fired')).toBe('.\n');
  });

  test('a call of a tool that does not exist meets them, too', async () => {
    const folder = hookFolder();
    const { result } = await attempt(folder, {
      hooks: only('touch fired'),
      call: { name: 'nothing', arguments: {} },
    });
    expect(folder.has('fired')).toBe(true);
    expect(result?.content).toContain('There is no tool nothing');
  });
});

describe('how a hook ends', () => {
  const code = (number: number) => `cat > /dev/null; echo said it >&2; exit ${number}`;

  test('`hooks.pre_tool_use[].command` says nothing by exit code 0 and plain output', async () => {
    for (const command of ['exit 0', 'echo fine', 'echo 42', 'echo null', 'echo "[x]" >&2']) {
      const { result, notices } = await attempt(hookFolder(), { hooks: only(command), call: free });
      expect(result).toMatchObject({ is_error: false });
      expect(notices).toEqual([]);
    }
    const { result } = await attempt(hookFolder(), { hooks: only('echo allow'), call: guarded });
    expect(result?.content).toContain("needs a person's permission");
  });

  test('`hooks.pre_tool_use[].command` denies by exit code 2, and its standard error is the reason', async () => {
    const folder = hookFolder();
    const { result, done, notices } = await attempt(folder, { hooks: only(code(2)), call: guarded });
    expect(result).toMatchObject({
      is_error: true,
      content: 'Permission denied. A hook denied it: said it',
    });
    expect(done.status).toBe('completed');
    expect(notices).toEqual([]);
    const silent = await attempt(folder, { hooks: only('exit 2'), call: free });
    expect(silent.result?.content).toBe('Permission denied. A hook denied it: it gave no reason.');
  });

  test('`hooks.pre_tool_use[].command` stops the run by exit code 49', async () => {
    const folder = hookFolder();
    const hooks = [{ command: code(49), matcher: 'ls' }];
    const { done, results, notices, types } = await attempt(folder, { hooks, call: [free, guarded] });
    expect(done).toMatchObject({
      status: 'interrupted',
      stop_reason: 'interrupted',
      interrupt_reason: 'hook',
    });
    expect(results[0]?.content).toBe('A hook stopped the run before this call. said it');
    expect(results[1]?.is_error).toBe(true);
    expect(notices).toEqual(['A hook stopped the run: said it']);
    expect(types.filter((type) => type === 'tool_started')).toHaveLength(1);
    expect(folder.has('made.txt')).toBe(false);
  });

  test('`hooks.pre_tool_use[].command` that stops the run stops it also for a process that takes it over', async () => {
    const transcript = createMemoryTranscript();
    const asked: unknown[] = [];
    const watched: typeof transcript = {
      ...transcript,
      appendEvents: async (runId, events) => {
        // From here on another process would find the call begun, and go on with the next.
        if (events.some(({ data }) => 'type' in data && data.type === 'tool_started'))
          asked.push(await transcript.readInterrupt(runId));
        await transcript.appendEvents(runId, events);
      },
    };
    const options = { transcript: watched };
    await attempt(hookFolder(), { hooks: only(code(49)), call: free, options });
    expect(asked).toEqual(['hook']);
  });

  test('`hooks.pre_tool_use[].command` says nothing by any other exit code, and people are told', async () => {
    for (const number of [1, 3, 48, 128, 255]) {
      const { result, notices } = await attempt(hookFolder(), { hooks: only(code(number)), call: free });
      expect(result).toMatchObject({ is_error: false });
      expect(notices).toEqual([
        `The hook hooks.pre_tool_use[0] (${JSON.stringify(code(number))}), which said "said it", gave no answer: it ` +
          `ended with exit code ${number}. The call goes on as if there were no hook.`,
      ]);
    }
  });

  test.each([
    ['a command that is not there', 'no-such-command-anywhere', 'the shell could not run it (exit code 127)'],
    ['a file that is no program', './notes.txt', 'the shell could not run it (exit code 126)'],
    ['a signal to the shell', 'kill -9 $$', 'the signal SIGKILL ended it'],
    [
      'a signal to what the shell runs',
      'sh -c "kill -11 \\$\\$"; exit $?',
      'a signal ended it (exit code 139)',
    ],
    ['too much output', 'head -c 1100000 /dev/zero | tr "\\0" x', 'it wrote more than 1048576 bytes'],
    ['endless output', 'yes', 'it wrote more than 1048576 bytes'],
    ['a word that is none', saying({ decision: 'perhaps' }), 'its output cannot be used: decision: '],
    ['a member of another type', saying({ halt: 'yes' }), 'its output cannot be used'],
    ['a version to come', saying({ version: 2, decision: 'allow' }), 'its output cannot be used'],
    ['a list', saying([{ decision: 'deny' }]), 'its output cannot be used'],
    [
      'JSON that breaks off',
      'echo \'{"decision":"deny","reason":"rm "x""}\'',
      'its output cannot be used: it begins like JSON and is none',
    ],
  ])('`hooks.pre_tool_use[].on_error` decides when the hook fails: %s', async (_case, command, why) => {
    const folder = hookFolder();
    folder.write('notes.txt', '', 0o644);
    const strict = await attempt(folder, { hooks: only(command), call: free });
    expect(strict.result).toMatchObject({ is_error: true });
    expect(strict.result?.content).toContain(
      `Permission denied. A hook denied it: The hook hooks.pre_tool_use[0] failed: ${why}`,
    );
    expect(strict.notices[0]).toContain('The call is denied.');
    const lenient = await attempt(folder, { hooks: only(command, { on_error: 'allow' }), call: free });
    expect(lenient.result).toMatchObject({ is_error: false });
    expect(lenient.notices[0]).toContain(why);
    expect(lenient.notices[0]).toContain('The call goes on as if there were no hook.');
  });

  test('`hooks.pre_tool_use[].on_error` decides when there is no folder to run in, and when the input fits nowhere', async () => {
    const folder = hookFolder();
    const gone = { ...folder, path: `${folder.path}/gone` };
    const { result } = await attempt(gone, { hooks: only('true'), call: free });
    expect(result?.content).toContain('failed: it could not be started: ENOENT');
    // The system gives no program a variable as long as this.
    const call = { name: 'bash', arguments: { command: `true ${'x'.repeat(200_000)}` } };
    const long = await attempt(folder, { hooks: only('true'), call });
    expect(long.result?.content).toContain('failed: it could not be started: E2BIG');
  });

  test('`hooks.pre_tool_use[].timeout` ends the hook with everything it started, and denies', async () => {
    const folder = hookFolder();
    const nap = `1000.${Math.floor(Math.random() * 1e9)}`;
    const command = `trap '' TERM; (setsid sh -c "touch up; sleep ${nap}" &); sleep ${nap} & sleep ${nap}; sleep ${nap}`;
    const begun = performance.now();
    const { result, notices } = await attempt(folder, { hooks: only(command, { timeout: 5 }), call: free });
    expect(performance.now() - begun).toBeLessThan(30_000);
    expect(result?.content).toContain('failed: it took longer than 5 s');
    expect(notices).toHaveLength(1);
    expect(folder.has('up')).toBe(true);
    await expect.poll(() => processesWith(nap)).toEqual([]);
    const lenient = await attempt(folder, {
      hooks: only('sleep 20', { timeout: 0.1, on_error: 'allow' }),
      call: free,
    });
    expect(lenient.result).toMatchObject({ is_error: false });
  });

  test('`hooks.pre_tool_use[].timeout` of many weeks is no timeout of none', async () => {
    const { result } = await attempt(hookFolder(), {
      hooks: only('sleep 0.1', { timeout: 1e9 }),
      call: free,
    });
    expect(result).toMatchObject({ is_error: false });
  });

  test('an interruption of the run ends its hooks at once, and the call does not happen', async () => {
    const folder = hookFolder();
    const nap = `1000.${Math.floor(Math.random() * 1e9)}`;
    let interrupted = 0;
    const running = attempt(folder, {
      hooks: only(`trap '' TERM; touch up; while :; do sleep ${nap}; done`),
      call: guarded,
      query: { permissionMode: 'accept_edits' },
      begun: async ({ runtime, transcript, runId }) => {
        await expect.poll(() => folder.has('up')).toBe(true);
        interrupted = performance.now();
        transcript.requestInterrupt(runId);
        runtime.wake(runId);
      },
    });
    const { done } = await running;
    expect(performance.now() - interrupted).toBeLessThan(10_000);
    expect(done).toMatchObject({ status: 'interrupted', interrupt_reason: 'requested' });
    expect(folder.has('made.txt')).toBe(false);
    await expect.poll(() => processesWith(nap)).toEqual([]);
  });
});
