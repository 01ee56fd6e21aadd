// The bash tool with real processes: output, limits, interruption, and the walls of the sandbox.
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { detectSandbox, type Sandbox, type SandboxSettings } from '../processes/sandbox.ts';
import { sandboxHere } from '../processes/test-sandbox.ts';
import { bashTool } from './bash.ts';
import { createJobs } from './jobs.ts';
import { callTool, SECRET, type TestWorkspace, testWorkspace } from './test-workspace.ts';

const found = await sandboxHere();
const has = !('unavailable' in found);

async function sandboxWith(settings: SandboxSettings = {}): Promise<Sandbox> {
  const sandbox = await detectSandbox(settings);
  if ('unavailable' in sandbox) throw new Error(sandbox.unavailable);
  return sandbox;
}

/** In a command: waits for the file of this name in the workspace. */
const untilToldOn = 'until [ -e on ]; do sleep 0.1; done';

const variants = [
  { name: 'without a sandbox', sandboxed: false },
  { name: 'in the sandbox', sandboxed: true },
];

describe.each(variants)('$name', ({ sandboxed }) => {
  const when = test.skipIf(sandboxed && !has);
  const asked = (title: string) => (sandboxed ? `${title} (needs bubblewrap)` : title);
  const sandbox = sandboxed && !('unavailable' in found) ? found : null;
  const tool = bashTool({ sandbox, allowNetwork: false, jobs: createJobs() });
  const bash = (workspace: TestWorkspace, command: string, more: object = {}, signal?: AbortSignal) =>
    callTool(tool, { command, ...more }, workspace.context(signal && { signal }));

  when(asked('both streams come back in order, with the exit code'), async () => {
    const workspace = testWorkspace();
    const output = await bash(workspace, 'echo one; echo two >&2; echo three; exit 3');
    expect(output).toMatchObject({ content: 'one\ntwo\nthree\n(Exit code 3.)', is_error: true });
    expect(output.metadata).toMatchObject({ exit_code: 3 });
    expect(await bash(workspace, 'true')).toMatchObject({
      content: '(no output)\n(Exit code 0.)',
      is_error: false,
    });
  });

  when(asked('thousands of line breaks before a letter hold nobody up'), async () => {
    const workspace = testWorkspace();
    let content = '';
    const spent = await cpuMsOf(async () => {
      ({ content } = await bash(workspace, "yes '' | head -n 29990; printf x"));
    });
    expect(content).toMatch(/\n\nx\n\(Exit code 0\.\)$/);
    expect(spent).toBeLessThan(450);
  });

  when(asked('it works in the workspace and asks for permission to execute'), async () => {
    const workspace = testWorkspace();
    const call = await tool.prepare({ command: 'pwd > where; cat < where' }, workspace.context());
    expect(call.permission).toMatchObject({ action: 'execute', path: workspace.path });
    expect((await call.run()).content).toBe(`${workspace.path}\n(Exit code 0.)`);
    expect(existsSync(join(workspace.path, 'where'))).toBe(true);
  });

  when(asked('a call begins in the workspace folder, whatever an earlier one did, and says so'), async () => {
    const workspace = testWorkspace();
    await bash(workspace, 'mkdir sub; cd sub; export LEFT=1');
    const output = await bash(workspace, 'pwd; echo "left: $LEFT"');
    expect(output.content).toBe(`${workspace.path}\nleft: \n(Exit code 0.)`);
    expect(tool.description).toContain('starts anew in the workspace folder');
  });

  when(asked('no variable of the server is visible'), async () => {
    process.env.CANARY_OF_THE_SERVER = SECRET;
    onTestFinished(() => void delete process.env.CANARY_OF_THE_SERVER);
    const output = await bash(
      testWorkspace(),
      'env; cat /proc/*/environ 2>/dev/null | tr "\\0" "\\n" | grep -c ^SANDBOX_NOTHING',
    );
    expect(output.content).not.toContain(SECRET);
    const names = output.content.split('\n').flatMap((line) => /^([A-Z_]+)=/.exec(line)?.[1] ?? []);
    const known = ['HOME', 'LANG', 'PATH', 'PWD', 'SERVICE_COMMAND', 'SHLVL', 'TERM', '_'];
    expect(names.filter((name) => !known.includes(name))).toEqual([]);
  });

  when(asked('no file of the workspace is taken for settings of the person'), async () => {
    const workspace = testWorkspace();
    writeFileSync(join(workspace.path, '.gitconfig'), '[alias]\n\tplanted = !echo obeyed\n');
    mkdirSync(join(workspace.path, '.config/git'), { recursive: true });
    writeFileSync(join(workspace.path, '.config/git/config'), '[alias]\n\tplanted = !echo obeyed\n');
    expect((await bash(workspace, 'git planted')).content).not.toContain('obeyed');
    expect((await bash(workspace, 'echo ~')).content).not.toContain(workspace.path);
  });

  when(asked('a long output is cut in the middle, in bounded memory'), async () => {
    const workspace = testWorkspace();
    const before = process.memoryUsage().rss;
    const output = await bash(
      workspace,
      'echo first; head -c 80000000 /dev/zero | tr "\\0" "x"; echo; echo last',
    );
    expect(output.content).toMatch(/^first\nx+/);
    expect(output.content).toMatch(
      /characters left out: to see them, send the output to a file and view or grep that\) …\n\nx+\nlast\n\(Exit code 0.\)$/,
    );
    expect(output.content.length).toBeLessThan(30_200);
    expect(process.memoryUsage().rss - before).toBeLessThan(300 * 1024 ** 2);
    expect(workspace.shownProgress.join('').length).toBeLessThan(250_000);
  });

  when(asked('output is shown while the command runs'), async () => {
    const workspace = testWorkspace();
    const running = bash(workspace, `echo early; ${untilToldOn}; echo late`);
    await until(() => workspace.shownProgress.length > 0);
    expect(workspace.shownProgress.join('')).toBe('early\n');
    workspace.file('on', '');
    await running;
    expect(workspace.shownProgress.join('')).toBe('early\nlate\n');
  });

  when(asked('it is stopped when its time is up'), async () => {
    const started = Date.now();
    const output = await bash(testWorkspace(), 'echo begun; sleep 1000', { timeout_seconds: 3 });
    expect(output).toMatchObject({
      is_error: true,
      content: expect.stringMatching(/^begun\n\(Stopped after 3 s/),
    });
    expect(Date.now() - started).toBeLessThan(20_000);
  });

  when(asked('an interruption ends it and all it started'), async () => {
    const workspace = testWorkspace();
    const length = uniqueSleep();
    const controller = new AbortController();
    onTestFinished(() => controller.abort());
    const command = `sleep ${length} & setsid sleep ${length} & (setsid nohup sleep ${length} >/dev/null 2>&1 &) ; sleep ${length}`;
    const running = bash(workspace, command, {}, controller.signal);
    await until(() => sleepers(length).length >= 4);
    controller.abort();
    expect(await running).toMatchObject({ is_error: true, metadata: { interrupted: true } });
    await expect.poll(() => sleepers(length)).toEqual([]);
  });

  when(
    asked('a command that ignores the polite signal is killed; one that heeds it may clean up'),
    async () => {
      const workspace = testWorkspace();
      const length = uniqueSleep();
      const controller = new AbortController();
      onTestFinished(() => controller.abort());
      const command = `trap 'echo cleaned > cleaned; exit' TERM; (trap '' TERM; while :; do sleep ${length}; done) & while :; do sleep 0.1; done`;
      const running = bash(workspace, command, {}, controller.signal);
      await until(() => sleepers(length).length >= 1);
      controller.abort();
      await running;
      await expect.poll(() => sleepers(length)).toEqual([]);
      expect(existsSync(join(workspace.path, 'cleaned'))).toBe(true);
    },
  );

  when(asked('a child in the background that keeps the output open does not hold up the call'), async () => {
    const length = uniqueSleep();
    const started = Date.now();
    const output = await bash(testWorkspace(), `sleep ${length} & setsid sleep ${length} & echo done`);
    expect(output.content).toBe('done\n(Exit code 0.)');
    expect(Date.now() - started).toBeLessThan(15_000);
    await expect.poll(() => sleepers(length)).toEqual([]);
  });

  when(asked('there is no input to wait for'), async () => {
    expect((await bash(testWorkspace(), 'cat; read x; echo $?')).content).toBe('1\n(Exit code 0.)');
  });

  when(asked('an interrupted run starts nothing'), async () => {
    const workspace = testWorkspace();
    const output = await bash(workspace, 'touch made', {}, AbortSignal.abort());
    expect(output.is_error).toBe(true);
    expect(existsSync(join(workspace.path, 'made'))).toBe(false);
  });
});

test.each([
  ['a NUL', { command: 'a\0b' }, /NUL/],
  ['no command', { command: '' }, /command/],
  ['too long a time', { command: 'a', timeout_seconds: 601 }, /timeout_seconds/],
  ['a command larger than the kernel takes', { command: 'x'.repeat(130_000) }, /at most/],
])('%s is refused', async (_case, input, message) => {
  const tool = bashTool({ sandbox: null, allowNetwork: false, jobs: createJobs() });
  await expect(tool.prepare(input, testWorkspace().context())).rejects.toThrow(message);
});

describe('the walls of the sandbox', () => {
  const when = test.skipIf(!has);
  const run = async (workspace: TestWorkspace, command: string, settings?: SandboxSettings) =>
    callTool(
      bashTool({ sandbox: await sandboxWith(settings), allowNetwork: false, jobs: createJobs() }),
      { command },
      workspace.context(),
    );

  when('nothing beside the workspace can be read, through links neither (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    symlinkSync(workspace.secretFile, join(workspace.path, 'link'));
    const output = await run(
      workspace,
      `cat ${workspace.secretFile} link ../outside/secret.txt; ls ..; ls -a /root /home /etc/shadow`,
    );
    expect(output.content).not.toContain(SECRET);
    expect(output.content).not.toContain('outside\n');
    expect(output.content).toMatch(/\/root.*No such file/);
    expect(output.content).toMatch(/\/etc\/shadow.*No such file/);
  });

  when('nothing outside the workspace can be written (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    const places = [
      '/x',
      '/usr/x',
      '/etc/x',
      '/dev/x',
      '/proc/sys/kernel/hostname',
      '/proc/sys/kernel/core_pattern',
      '/proc/sysrq-trigger',
      '/bin/x',
    ];
    const output = await run(
      workspace,
      `for p in ${places.join(' ')}; do (: >> $p) 2>/dev/null && echo wrote $p; done; echo x > ${workspace.secretFile}; echo x > ok`,
    );
    expect(output.content).not.toContain('wrote');
    expect(readFileSync(workspace.secretFile, 'utf8')).toBe(SECRET);
    expect(readFileSync(join(workspace.path, 'ok'), 'utf8')).toBe('x\n');
  });

  when('there is no network, not even to this machine (needs bubblewrap)', async () => {
    const server = createServer((socket) => socket.end('reached')).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await new Promise((resolve) => server.once('listening', resolve));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    const command = `exec 3<>/dev/tcp/127.0.0.1/${address.port} && cat <&3`;
    const outside = await callTool(
      bashTool({ sandbox: null, allowNetwork: false, jobs: createJobs() }),
      { command },
      testWorkspace().context(),
    );
    expect(outside.content).toContain('reached');
    expect((await run(testWorkspace(), command)).content).not.toContain('reached');
  });

  when(
    'the user is an ordinary one without capabilities and sees only its own processes (needs bubblewrap)',
    async () => {
      const command =
        'id -u; grep -E "CapEff|CapBnd|NoNewPrivs" /proc/self/status; ls -d /proc/[0-9]* | wc -l; unshare -U true 2>/dev/null && echo nested';
      const output = await run(testWorkspace(), command);
      expect(output.content).toMatch(/^1000\nCapEff:\t0+\nCapBnd:\t0+\nNoNewPrivs:\t1\n[2-9]\n/);
      expect(output.content).not.toContain('nested');
    },
  );

  when('too many processes are stopped (needs bubblewrap)', async () => {
    const tool = bashTool({
      sandbox: await sandboxWith({ limits: { processes: 40 } }),
      allowNetwork: false,
      jobs: createJobs(),
    });
    // The kernel refuses an ordinary user, and bash then goes on trying; for root the watch over the tree ends it.
    const input = { command: 'for i in $(seq 400); do sleep 30 & done; wait', timeout_seconds: 6 };
    const output = await callTool(tool, input, testWorkspace().context());
    expect(output.is_error).toBe(true);
    expect(output.content).toMatch(/too many processes|Resource temporarily unavailable/);
  });

  when('the limits are these where nothing else is set (needs bubblewrap)', async () => {
    const output = await run(
      testWorkspace(),
      'cat /proc/self/limits; df --block-size=1 --output=target,size /tmp /dev/shm',
    );
    const soft = (name: string) => new RegExp(`^${name} +(\\d+)`, 'm').exec(output.content)?.[1];
    expect([soft('Max processes'), soft('Max data size')]).toEqual(['256', String(4 * 1024 ** 3)]);
    expect([soft('Max file size'), soft('Max cpu time')]).toEqual([String(1024 ** 3), '600']);
    for (const folder of ['/tmp', '/dev/shm']) expect(soft(folder)).toBe(String(512 * 1024 ** 2));
  });

  when('too much memory is refused, in one process and in many together (needs bubblewrap)', async () => {
    const limits = { memoryBytes: 200 * 1024 ** 2 };
    const eat = (bytes: number) => `head -c ${bytes} /dev/zero | tail -c ${bytes} | (sleep 2; wc -c)`;
    const alone = await run(testWorkspace(), eat(400_000_000), { limits });
    expect(alone.content).not.toContain('400000000');
    const together = await run(
      testWorkspace(),
      `${eat(100_000_000)} & ${eat(100_000_000)} & ${eat(100_000_000)} & wait`,
      { limits },
    );
    expect(together.content).toMatch(/too much memory/);
  });

  when('a file over the limit, and a full /tmp, are refused (needs bubblewrap)', async () => {
    const limits = { fileBytes: 1024 ** 2, temporaryBytes: 1024 ** 2 };
    const output = await run(
      testWorkspace(),
      '(head -c 3000000 /dev/zero > big); wc -c < big; head -c 900000 /dev/zero > /tmp/a; head -c 900000 /dev/zero > /tmp/b',
      { limits },
    );
    expect(output.content).toMatch(/^.*1048576$/m);
    expect(output.content).toMatch(/No space left/);
  });

  when('hidden folders inside the workspace look empty (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    workspace.file('data/master.key', SECRET);
    const hiddenPaths = [join(workspace.path, 'data')];
    expect((await run(workspace, 'ls -A data; cat data/master.key', { hiddenPaths })).content).not.toContain(
      SECRET,
    );
  });

  when(
    'a readable folder may hold the workspace and what is hidden, and neither changes (needs bubblewrap)',
    async () => {
      const workspace = testWorkspace();
      const above = dirname(workspace.path);
      const data = join(above, 'data');
      mkdirSync(data);
      writeFileSync(join(data, 'master.key'), SECRET);
      const tool = bashTool({
        sandbox: await sandboxWith({ hiddenPaths: [data] }),
        ...{ allowNetwork: false, readablePaths: [above], jobs: createJobs() },
      });
      const command = `cat ${workspace.secretFile}; ls -A ../data; echo x > ../new; echo y > own && cat own`;
      const { content } = await callTool(tool, { command }, workspace.context());
      expect(content).toContain(SECRET);
      expect(content).not.toContain('master.key');
      expect(content).toMatch(/\.\.\/new: Read-only file system\ny\n/);
    },
  );

  when('no readable folder leads to what is hidden, by whichever name (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    const above = dirname(workspace.path);
    const machine = join(above, 'machine');
    const [data, key] = [join(machine, 'data'), join(machine, 'own.key')];
    mkdirSync(join(data, 'inside'), { recursive: true });
    for (const file of [key, join(data, 'own.key'), join(data, 'inside/own.key')])
      writeFileSync(file, SECRET);
    symlinkSync(machine, join(above, 'link'));
    const sandbox = await sandboxWith({ hiddenPaths: [data, key] });
    const look = async (...readablePaths: string[]) => {
      const tool = bashTool({ sandbox, allowNetwork: false, readablePaths, jobs: createJobs() });
      const command = `grep -rsh . ${machine} ${above}/link/; ls ${above}/link/`;
      return (await callTool(tool, { command }, workspace.context())).content;
    };
    for (const path of [machine, `${machine}/`, `${machine}/./`, join(above, 'link'), `${above}/`])
      expect(await look(path)).not.toContain(SECRET);
    // It is found by the name of the link, too, also where the link lies in another readable folder.
    expect(await look(join(above, 'link'))).toContain('data\nown.key\n');
    expect(await look(above, join(above, 'link'))).toContain('data\nown.key\n');
    for (const path of [data, join(data, 'inside'), join(above, 'link/data/inside')])
      expect(await look(path)).toContain(`cannot name ${path}: the service keeps its own data there`);
    expect(await look(join(workspace.path, '../outside/secret.txt'))).toContain('it is no folder');
    expect(await look(join(above, 'not-there'))).not.toContain('cannot name');
    for (const path of ['/', '/proc/self', '/tmp', '/etc', '/dev', '/run'])
      expect(await look(path)).toContain(`cannot name ${path}: commands have their own there`);
  });

  when('a folder of the system is no workspace (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    const tool = bashTool({ sandbox: await sandboxWith(), allowNetwork: false, jobs: createJobs() });
    for (const workspacePath of ['/', '/usr', '/tmp']) {
      const output = await callTool(tool, { command: 'true' }, workspace.context({ workspacePath }));
      expect(output).toMatchObject({
        is_error: true,
        content: expect.stringContaining('cannot be a workspace'),
      });
    }
  });
});

describe('names that other programs obey', () => {
  const when = test.skipIf(!has);
  const run = async (workspace: TestWorkspace, command: string) =>
    callTool(
      bashTool({ sandbox: await sandboxWith(), allowNetwork: false, jobs: createJobs() }),
      { command },
      workspace.context(),
    );
  const attack = [
    'mkdir -p .git/hooks .service',
    'echo evil > .git/config',
    'echo evil > .git/hooks/pre-commit',
    'echo evil > .git/commondir',
    'rm -rf .git/config .git/hooks',
    'mv .git aside && mkdir -p .git/hooks && echo evil > .git/config',
    'ln -sfn aside .git/hooks',
    'for f in service.json .service.json .service/service.json; do echo evil > $f; rm -rf $f; ln -s evil $f; done',
    'mv .service x; mv service.json y',
  ].join('; ');

  when('what exists stays as it was (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    const names = [
      '.git/config',
      '.git/hooks/sample',
      '.git/HEAD',
      'service.json',
      '.service.json',
      '.service/service.json',
    ];
    for (const name of names) workspace.file(name, 'good');
    await run(workspace, attack);
    for (const name of names) expect(readFileSync(join(workspace.path, name), 'utf8')).toBe('good');
    expect(existsSync(join(workspace.path, '.git/hooks/pre-commit'))).toBe(false);
    expect(existsSync(join(workspace.path, '.git/commondir'))).toBe(false);
  });

  when.each(['made by git', 'not there yet'])(
    'the settings of a worktree, %s, are those of git as well (needs bubblewrap)',
    async (state) => {
      const workspace = testWorkspace();
      const git = (...args: readonly string[]) =>
        execFileSync('git', args, { cwd: workspace.path, encoding: 'utf8' });
      git('init', '-q');
      git('sparse-checkout', 'init');
      const settings = join(workspace.path, '.git/config.worktree');
      expect(existsSync(settings)).toBe(true);
      if (state === 'not there yet') rmSync(settings);
      await run(
        workspace,
        'git config --worktree core.fsmonitor ./evil; rm -f .git/config.worktree; echo "[core] fsmonitor = ./evil" > .git/config.worktree',
      );
      expect(git('config', '--list')).not.toContain('evil');
    },
  );

  when('what does not exist is not made, and no placeholder stays behind (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    const output = await run(workspace, `${attack}; ls -A`);
    expect(output.is_error).toBe(false);
    for (const name of ['.git', 'service.json', '.service.json', '.service', 'aside', 'x', 'y']) {
      expect(existsSync(join(workspace.path, name)), name).toBe(false);
    }
  });

  when('two commands at once share the placeholders (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    const slow = run(workspace, `${untilToldOn}; echo evil > service.json; mkdir .git/hooks; true`);
    await until(() => existsSync(join(workspace.path, 'service.json')));
    await run(workspace, 'true');
    expect(existsSync(join(workspace.path, 'service.json'))).toBe(true);
    workspace.file('on', '');
    await slow;
    expect(existsSync(join(workspace.path, 'service.json'))).toBe(false);
    expect(existsSync(join(workspace.path, '.git'))).toBe(false);
  });

  when('what a person puts there meanwhile stays (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    const slow = run(workspace, untilToldOn);
    await until(() => existsSync(join(workspace.path, 'service.json')));
    workspace.file('.service/service.json', '{}');
    workspace.file('on', '');
    await slow;
    expect(readFileSync(join(workspace.path, '.service/service.json'), 'utf8')).toBe('{}');
  });

  when(
    'a commit of everything holds no placeholder, and placeholders left by a crash go (needs bubblewrap)',
    async () => {
      const workspace = testWorkspace();
      mkdirSync(join(workspace.path, 'service.json'));
      workspace.file('a.txt', 'x');
      execFileSync('git', ['init', '-q'], { cwd: workspace.path });
      const commit = 'git -c user.name=x -c user.email=x@example.com commit -q -m x';
      const output = await run(workspace, `git add -A && ${commit} && git ls-files`);
      expect(output.content).toBe('a.txt\n(Exit code 0.)');
      expect(existsSync(join(workspace.path, 'service.json'))).toBe(false);
    },
  );

  when('a link in their place refuses the command (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    mkdirSync(join(workspace.path, 'elsewhere'));
    symlinkSync('elsewhere', join(workspace.path, '.service'));
    const output = await run(workspace, 'true');
    expect(output).toMatchObject({ is_error: true, content: expect.stringContaining('symbolic link') });
  });
});

/** A sleep that no other process of the machine does, so that it can be found. */
function uniqueSleep(): string {
  return `1000.${Math.floor(Math.random() * 1e9)}`;
}

function sleepers(length: string): readonly string[] {
  return processTable().filter((command) => command === `sleep\0${length}\0`);
}

function processTable(): readonly string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => commandLine(pid) ?? []);
}

function commandLine(pid: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    // It has just ended.
    return null;
  }
}

async function until(condition: () => boolean): Promise<void> {
  for (let attempt = 0; attempt < 400 && !condition(); attempt += 1) await delay(50);
  expect(condition()).toBe(true);
}
