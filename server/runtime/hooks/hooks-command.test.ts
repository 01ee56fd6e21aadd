/** What the command of a hook is given, what it cannot see, and where it may run. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import { clientConfigSchema } from '../../contract/config.ts';
import { sandboxHere } from '../processes/test-sandbox.ts';
import { hookBench, hookFolder, type ScriptedCall, saying, workspaceOfServer } from './test-hooks.ts';

const { attempt } = hookBench();
const hasSandbox = !('unavailable' in (await sandboxHere()));
const free: ScriptedCall = { name: 'ls', arguments: { path: '.' } };
const guarded: ScriptedCall = { name: 'write', arguments: { file_path: 'made.txt', content: 'A' } };

/** Sets variables of this process for one test. */
function setEnvironment(variables: Readonly<Record<string, string>>): void {
  const before = { ...process.env };
  Object.assign(process.env, variables);
  onTestFinished(() => {
    for (const name of Object.keys(variables)) {
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
    }
  });
}

describe('a hook', () => {
  test('`hooks.pre_tool_use[].command` reads the call as JSON from its standard input', async () => {
    const folder = hookFolder();
    const call = { name: 'bash', arguments: { command: 'echo "$(touch spliced)" ü \ud83d\ude00' } };
    const { done } = await attempt(folder, { hooks: [{ command: 'cat > given.json' }], call });
    expect(JSON.parse(folder.read('given.json'))).toEqual({
      event: 'pre_tool_use',
      session_id: 'ses_1',
      run_id: done.run_id,
      cwd: folder.path,
      tool_name: 'bash',
      tool_input: call.arguments,
      tool_call_id: done.tool_uses[0]?.id,
    });
    expect(folder.has('spliced')).toBe(false);
  });

  test('works as its page shows', async () => {
    const page = readFileSync(join(import.meta.dirname, '../../../docs/hooks.md'), 'utf8');
    const [settings, guard] = [...page.matchAll(/```(?:json|sh)\n(.*?)```/gs)].map(
      ([, block]) => block ?? '',
    );
    const folder = hookFolder();
    folder.write('guard.sh', guard ?? '');
    // As a program would hand them in; the page shows them as they stand in a file.
    const config = clientConfigSchema.parse(JSON.parse(settings ?? ''));
    const bash = (command: string) => ({ name: 'bash', arguments: { command } });
    const query = { permissionMode: 'bypass' } as const;
    const { results } = await attempt(folder, {
      config,
      query,
      call: [bash('git push -f'), bash('echo on')],
    });
    expect(results[0]?.content).toBe('Permission denied. A hook denied it: Pushing is for people.');
    expect(results[1]?.content).toContain('on\n');
  });

  test('reads an input of megabytes, and need not read it at all', async () => {
    const folder = hookFolder();
    const call = { name: 'write', arguments: { file_path: 'a', content: 'x'.repeat(3_000_000) } };
    await attempt(folder, { hooks: [{ command: 'wc -c > size' }], call });
    expect(Number(folder.read('size'))).toBeGreaterThan(3_000_000);
    const { notices, result } = await attempt(folder, { hooks: [{ command: 'exec 0<&-; exit 0' }], call });
    expect(notices).toEqual([]);
    expect(result?.content).toContain("needs a person's permission");
  });

  test('`hooks.pre_tool_use[].command` has a built environment: the person’s own, the call, and no setting or key', async () => {
    setEnvironment({
      SERVICE_MASTER_KEY_FILE: '/secret/key',
      SERVICE_TOOL_INPUT_FILE_PATH: 'inherited',
      DATABASE_URL: 'postgres://secret',
      ANTHROPIC_API_KEY: 'secret',
      LANG: 'C.UTF-8',
      TMPDIR: tmpdir(),
    });
    const folder = hookFolder();
    const command = 'env > env.txt; tr "\\0" "\\n" < /proc/$PPID/environ > /dev/null; pwd > cwd.txt';
    const call = { name: 'bash', arguments: { command: 'echo one', description: 'x' } };
    await attempt(folder, { hooks: [{ command }], call });
    const lines = folder.read('env.txt').trim().split('\n');
    expect(lines).toEqual(
      expect.arrayContaining([
        'SERVICE=1',
        'AGENT=service',
        'AI_AGENT=service',
        'SERVICE_EVENT=pre_tool_use',
        'SERVICE_TOOL_NAME=bash',
        'SERVICE_SESSION_ID=ses_1',
        `SERVICE_CWD=${folder.path}`,
        `SERVICE_PROJECT_DIR=${folder.path}`,
        'SERVICE_TOOL_INPUT_COMMAND=echo one',
        `PATH=${process.env.PATH}`,
        `HOME=${process.env.HOME}`,
        `TMPDIR=${tmpdir()}`,
        'LANG=C.UTF-8',
      ]),
    );
    const names = lines
      .map((line) => line.split('=')[0])
      .filter((name) => !allowedNames.includes(name ?? ''));
    expect(names).toEqual([]);
    expect(folder.read('env.txt')).not.toContain('SERVICE_TOOL_INPUT_FILE_PATH');
    expect(folder.read('env.txt')).not.toMatch(/secret|the-key-of-the-provider/);
    expect(folder.read('cwd.txt')).toBe(`${folder.path}\n`);
  });

  const allowedNames = [
    ...['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_ALL', 'TZ', 'TERM', 'TMPDIR'],
    ...[
      'SERVICE',
      'AGENT',
      'AI_AGENT',
      'SERVICE_EVENT',
      'SERVICE_TOOL_NAME',
      'SERVICE_SESSION_ID',
      'SERVICE_CWD',
      'SERVICE_PROJECT_DIR',
    ],
    // The last four are the shell's own, and the mark by which the processes of a command are found.
    ...['SERVICE_TOOL_INPUT_COMMAND', 'PWD', 'SHLVL', '_', 'SERVICE_COMMAND', 'OLDPWD'],
  ];

  test('is told the file of a call that names one', async () => {
    const folder = hookFolder();
    const command = 'printf %s "$SERVICE_TOOL_INPUT_FILE_PATH" > file; env > env.txt';
    await attempt(folder, { hooks: [{ command }], call: guarded });
    expect(folder.read('file')).toBe('made.txt');
    expect(folder.read('env.txt')).not.toContain('SERVICE_TOOL_INPUT_COMMAND');
  });

  test('is in the log at its most talkative with its decision, and without the input', async () => {
    const lines: string[] = [];
    const log = pino({ level: 'debug' }, { write: (line) => lines.push(line) });
    const hooks = [{ command: saying({ decision: 'deny', reason: 'made.txt' }) }];
    await attempt(hookFolder(), { hooks, call: guarded, options: { log } });
    const entry = lines.map((line) => JSON.parse(line)).find(({ hook }) => hook);
    expect(entry).toMatchObject({ tool_name: 'write', hook: 'hooks.pre_tool_use[0]', decision: 'deny' });
    expect(lines.join('')).not.toContain('made.txt');
  });
});

describe('a hook where many people share the runtime', () => {
  const shared = { options: { shared: true } } as const;
  const when = test.skipIf(!hasSandbox);

  when(
    'runs in the sandbox: it sees the call and the workspace, and nothing else (needs bubblewrap)',
    async () => {
      const folder = workspaceOfServer();
      writeFileSync(join(folder.path, '..', 'secret.txt'), 'of another tenant');
      const command =
        'cat > given.json; env > env.txt; pwd > cwd.txt; cat ../secret.txt > seen.txt 2>&1; echo no >&2; exit 2';
      const call = { name: 'write', arguments: { file_path: 'a b', content: 'x' } };
      const { result } = await attempt(folder, { ...shared, hooks: [{ command }], call });
      expect(result?.content).toBe('Permission denied. A hook denied it: no');
      expect(JSON.parse(folder.read('given.json'))).toMatchObject({ tool_input: call.arguments });
      expect(folder.read('cwd.txt')).toBe(`${folder.path}\n`);
      expect(folder.read('seen.txt')).not.toContain('of another tenant');
      expect(folder.read('env.txt')).toContain('SERVICE_TOOL_INPUT_FILE_PATH=a b\n');
      expect(folder.read('env.txt')).toContain('HOME=/tmp\n');
    },
  );

  when('says there what it says elsewhere (needs bubblewrap)', async () => {
    const folder = workspaceOfServer();
    const hooks = [{ command: saying({ decision: 'allow', updated_input: { file_path: 'other.txt' } }) }];
    const { result } = await attempt(folder, { ...shared, hooks, call: guarded });
    expect(result).toMatchObject({ is_error: false });
    expect(folder.has('other.txt')).toBe(true);
    const signalled = await attempt(folder, { ...shared, hooks: [{ command: 'kill -9 $$' }], call: free });
    expect(signalled.result?.content).toContain('a signal ended it');
    const slow = { command: 'sleep 1000', timeout: 0.3 };
    const late = await attempt(folder, { ...shared, hooks: [slow], call: free });
    expect(late.result?.content).toContain('it took longer than 0.3 s');
  });

  when('has its command and its output kept from the people there (needs bubblewrap)', async () => {
    const command = 'echo the-inside-of-the-operator >&2; exit 3';
    const { notices } = await attempt(workspaceOfServer(), { ...shared, hooks: [{ command }], call: free });
    expect(notices).toEqual([
      'The hook hooks.pre_tool_use[0] gave no answer: it ended with exit code 3. The call goes on as if there were no hook.',
    ]);
  });

  test('cannot run without a sandbox, and denies unless `hooks.pre_tool_use[].on_error` allows', async () => {
    const folder = workspaceOfServer();
    setEnvironment({ PATH: folder.path });
    const hook = { command: 'touch fired' };
    const { result } = await attempt(folder, { ...shared, hooks: [hook], call: free });
    expect(result).toMatchObject({ is_error: true });
    expect(result?.content).toContain(
      'it could not be started: hooks run here only in a sandbox, and bubblewrap',
    );
    const lenient = await attempt(folder, { ...shared, hooks: [{ ...hook, on_error: 'allow' }], call: free });
    expect(lenient.result).toMatchObject({ is_error: false });
    expect(folder.has('fired')).toBe(false);
  });

  test('is not taken for one that says nothing when the sandbox itself fails', async () => {
    const programs = mkdtempSync(join(tmpdir(), 'service-programs-'));
    onTestFinished(() => rmSync(programs, { recursive: true }));
    // Works when it is tried, and never again.
    const sometimes =
      '#!/bin/sh\ncase "$*" in *"exit 0") exit 0;; esac\necho "bwrap: no more namespaces" >&2\nexit 1\n';
    writeFileSync(join(programs, 'bwrap'), sometimes, { mode: 0o755 });
    setEnvironment({ PATH: `${programs}:${process.env.PATH}` });
    const { result } = await attempt(workspaceOfServer(), {
      ...shared,
      hooks: [{ command: 'true' }],
      call: free,
    });
    expect(result?.content).toContain('failed: the sandbox could not start it');
  });
});
