/** `service run` as scripts use it: pipes for input and output, exit codes, sessions, signals. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { processStat } from '../../../server/process-stat.ts';
import { overStdio } from '../../../server/runtime/mcp/test-mcp.ts';
import { dataFolder, launcher, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { runToEnd } from '../test-process.ts';
import { startTestServer } from '../test-server.ts';

const text = (answer: string, more: object = {}) => ({ reply: { text: answer, ...more } });
const call = (name: string, args: object) => ({ reply: { tool_calls: [{ name, arguments: args }] } });
/** First a tool call, then what came of it. */
const tool = (name: string, args: object) => [
  { when: { step: 0 }, ...call(name, args) },
  text('The tool said: {{last_tool_result}}'),
];

test('the answer goes to standard output and nothing else does', async () => {
  const home = testHome();
  await withScriptedModel(home, [text('You said: {{last_user}}', { reasoning: 'Let me think.' })]);
  const ended = await home.service(['run', 'hello', 'there']);
  expect(ended).toMatchObject({ code: 0, stdout: 'You said: hello there\n' });
  expect(ended.stderr).toBe('✻ Let me think.\n');
});

test('what is piped in stands behind the words of the command line, and may stand alone', async () => {
  const home = testHome();
  await withScriptedModel(home, [text('{{last_user}}')]);
  const both = await home.service(['run', 'Explain', 'this'], { input: 'diff --git\n+line\n' });
  expect(both.stdout).toBe('Explain this\n\ndiff --git\n+line\n');
  const alone = await home.service(['run', '-q'], { input: 'Only this\n' });
  expect(alone).toMatchObject({ code: 0, stdout: 'Only this\n', stderr: '' });
  const indented = await home.service(['run', 'Explain'], { input: '\ufeff \r\n\n    return 1\n  end\n\n' });
  expect(indented.stdout).toBe('Explain\n\n    return 1\n  end\n');
});

test.each([
  ['nothing', '', 'Nothing is asked'],
  ['a binary file', 'a\0b', 'NUL'],
])('%s on standard input is wrong usage, before anything is made', async (_, input, told) => {
  const home = testHome();
  const ended = await home.service(['run'], { input });
  expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(told) });
  expect(existsSync(join(home.project, '.service'))).toBe(false);
});

test('the answer streams as it comes, and is exact in a pipe, whatever characters it has', async () => {
  const home = testHome();
  const answer = 'one \u001b[31mred\u001b[0m \u202e two 👩‍👩‍👧\r\n\tthree';
  const upstream = await withScriptedModel(home, [text(answer, { chunk_size: 1, hold_after_chunks: 20 })]);
  const service = home.start(['run', 'x']);
  await service.until(() => service.stdout().includes('red'));
  await upstream.releaseHeld();
  expect(await service.ended).toMatchObject({ code: 0, stdout: `${answer}\n` });
});

test.each([
  ['a full stop', '.'],
  ['the first half of a line break', '\r'],
])(
  'messages that end with %s stand on lines of their own, and what is done between them is on standard error',
  async (_, end) => {
    const home = testHome();
    writeFileSync(join(home.project, 'a.txt'), 'the content');
    await withScriptedModel(home, [
      {
        when: { step: 0 },
        reply: { text: `I look${end}`, tool_calls: [{ name: 'view', arguments: { file_path: 'a.txt' } }] },
      },
      text(`It is there${end}`),
    ]);
    const ended = await home.service(['run', 'look']);
    expect(ended).toMatchObject({ code: 0, stdout: `I look${end}\nIt is there${end}\n` });
    expect(ended.stderr).toMatch(/^● view a\.txt\n {2}└ .*the content/);
    const quiet = await home.service(['run', '--quiet', 'look']);
    expect(quiet).toMatchObject({ code: 0, stdout: `It is there${end}\n`, stderr: '' });
  },
);

test('with --json every event is one line, the last one done', async () => {
  const home = testHome();
  await withScriptedModel(home, [text('All good.')]);
  const ended = await home.service(['run', '--json', 'x']);
  const events = ended.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(ended).toMatchObject({ code: 0, stderr: '' });
  expect(events.map(({ id }) => id)).toEqual(events.map((_, at) => at + 1));
  expect(events[0]).toMatchObject({ event: 'runtime', data: { type: 'run_queued' } });
  expect(events.at(-1)).toMatchObject({
    event: 'done',
    data: { status: 'completed', content: [{ type: 'text', text: 'All good.' }] },
  });
  const quiet = await home.service(['run', '--json', '--quiet', 'x']);
  expect(quiet).toMatchObject({ code: 0, stderr: '' });
  const last = quiet.stdout.trimEnd().split('\n').at(-1) ?? '';
  expect(JSON.parse(last)).toMatchObject({ event: 'done', data: { status: 'completed' } });
});

test('without a terminal a tool call that needs permission is refused at once, with the way to allow it', async () => {
  const home = testHome();
  await withScriptedModel(home, tool('bash', { command: 'touch made' }));
  const ended = await home.service(['run', 'go']);
  expect(ended.code).toBe(0);
  expect(ended.stdout).toContain('Permission denied. The person said: Nobody is there to ask.');
  expect(ended.stderr).toMatch(/bash was refused: there is no terminal.*"bash\(touch made\)".*--yolo/s);
  expect(existsSync(join(home.project, 'made'))).toBe(false);
});

test('with --yolo no tool call is asked about', async () => {
  const home = testHome();
  await withScriptedModel(home, tool('bash', { command: 'touch made && pwd' }));
  const ended = await home.service(['run', '--yolo', 'go']);
  expect(ended).toMatchObject({ code: 0, stdout: expect.stringContaining(home.project) });
  expect(existsSync(join(home.project, 'made'))).toBe(true);
});

test('`permissions.allowed_tools` lets a tool run where nobody can be asked', async () => {
  const home = testHome();
  const permissions = { allowed_tools: ['bash:execute'] };
  await withScriptedModel(home, tool('bash', { command: 'touch made' }), { permissions });
  expect(await home.service(['run', 'go'])).toMatchObject({ code: 0 });
  expect(existsSync(join(home.project, 'made'))).toBe(true);
});

test('without a terminal a question of the agent is declined', async () => {
  const home = testHome();
  const questions = [{ id: 'q', type: 'yes_no', text: 'Shall I?' }];
  await withScriptedModel(home, tool('ask_user', { questions }));
  const ended = await home.service(['run', 'go']);
  expect(ended).toMatchObject({ code: 0, stdout: expect.stringContaining('The person declined to answer.') });
});

test('a run begins a new session, --session goes on in one by the end of its id, --continue in the latest', async () => {
  const home = testHome();
  const upstream = await withScriptedModel(home, [text('{{last_user}}')]);
  const first = await home.service(['run', '--json', 'one']);
  const { session_id: id } = JSON.parse(first.stdout.trimEnd().split('\n').at(-1) ?? '').data;
  await home.service(['run', 'two']);
  await home.service(['run', '--session', id.slice(-8), 'three']);
  const heard = async () => JSON.stringify((await upstream.requests()).at(-1)?.body);
  expect(await heard()).toMatch(/one.*three/);
  expect(await heard()).not.toContain('"two"');
  await home.service(['run', '--continue', 'four']);
  expect(await heard()).toMatch(/one.*three.*four/);
});

test.each([
  [['--continue'], 'There is no session to go on in'],
  [['--session', 'nosuch'], 'There is no session whose id is or ends with'],
  [['--session', `ses_${'0'.repeat(26)}`], 'not_found'],
])('%j where there is no such session fails with what to do', async (args, told) => {
  const home = testHome();
  const ended = await home.service(['run', ...args, 'x']);
  expect(ended).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(told) });
});

test('--model asks another model, and one that there is not fails with how to find one', async () => {
  const home = testHome();
  await withScriptedModel(home, [text('scripted')]);
  const demo = await home.service(['run', '--model', 'demo:demo-1', 'x']);
  expect(demo.stdout).toContain('This is the built-in demonstration');
  const none = await home.service(['run', '--model', 'nobody:none', 'x']);
  expect(none).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('service models') });
});

test('a failure of the provider ends with 1, its code and sentence, and what was said before it', async () => {
  const home = testHome();
  await withScriptedModel(home, [
    {
      reply: { text: 'It begins ' },
      fail: { kind: 'error_frame', after_chunks: 1, status: 401, message: 'bad key' },
    },
  ]);
  const ended = await home.service(['run', 'x']);
  expect(ended.code).toBe(1);
  expect(ended.stderr).toMatch(/^service: .*\(provider_\w+\)/m);
});

test('an interrupt stops the run, which is stored as interrupted, and ends with 130', async () => {
  const home = testHome();
  await withScriptedModel(home, [text('slowly '.repeat(100), { hold_after_chunks: 3 })]);
  const service = home.start(['run', 'x']);
  await service.until(() => service.stdout().includes('slowly'));
  service.child.kill('SIGINT');
  expect((await service.ended).code).toBe(130);
  const sessions = await home.service(['sessions', 'list', '--json']);
  const [{ id, status }] = JSON.parse(sessions.stdout);
  expect(status).toBe('idle');
  const shown = await home.service(['sessions', 'show', id]);
  expect(shown.stdout).toMatch(/slowly[\s\S]*\(interrupted\)/);
});

test('a second interrupt ends the command at once, and leaves no MCP server behind', async () => {
  const home = testHome();
  const slow = tool('bash', { command: 'trap "" TERM INT; sleep 60' });
  const words = String.raw`echo \$\$ >"\$HOME/mcp.pid"; trap "" TERM INT; exec "\$@"`;
  const { command, args } = overStdio('everything');
  const mcp = { everything: { command: 'sh', args: ['-c', words, 'sh', command, ...(args ?? [])] } };
  await withScriptedModel(home, slow, { mcp });
  const service = home.start(['run', '--yolo', 'x']);
  await service.until(() => service.stderr().includes('● bash'));
  service.child.kill('SIGINT');
  await service.until(() => service.stderr().includes('Stopping'));
  service.child.kill('SIGINT');
  const began = performance.now();
  expect((await service.ended).code).toBe(130);
  expect(performance.now() - began).toBeLessThan(30_000);
  const pid = Number(readFileSync(join(home.home, 'mcp.pid'), 'utf8'));
  await expect.poll(() => processStat(pid)?.ended ?? true).toBe(true);
});

test('a reader that has read enough stops the run, without a word', async () => {
  const home = testHome();
  const upstream = await withScriptedModel(home, [text('a line\n'.repeat(10_000), { chunk_delay_ms: 5 })]);
  const service = home.start(['run', 'x']);
  await service.until(() => service.stdout().includes('a line'));
  service.child.stdout?.destroy();
  expect(await service.ended).toMatchObject({ code: 0, stderr: '' });
  // The command may have ended before the provider has seen that it is gone.
  await expect.poll(async () => (await upstream.requests()).at(-1)?.outcome).toBe('aborted');
});

test('output that cannot be written, as to a full disk, stops the run, a remote one too, and is told in a sentence', async () => {
  const home = testHome();
  const reply = text('a line\n'.repeat(10_000), { chunk_delay_ms: 5 });
  const upstream = await withScriptedModel(home, [reply]);
  const settings = JSON.parse(readFileSync(join(home.home, '.config/service/service.json'), 'utf8'));
  const server = await startTestServer(settings);
  const environment = { ...home.environment, SERVICE_API_KEY: server.operatorKey };
  const full = (...words: string[]) => {
    const line = 'exec "$0" "$@" >/dev/full';
    return runToEnd('sh', ['-c', line, launcher, ...words], { cwd: home.project, environment });
  };
  const ended = {
    code: 1,
    stderr: expect.stringMatching(/^service: Standard output cannot be written: ENOSPC: .*\.\n$/),
  };
  for (const where of [[], ['--server', server.url]]) {
    expect(await full('run', ...where, 'x')).toMatchObject(ended);
    await expect.poll(async () => (await upstream.requests()).at(-1)?.outcome).toBe('aborted');
  }
  expect(await full('config', 'show')).toMatchObject(ended);
});

test('nobody has to read what stands beside the answer', async () => {
  const home = testHome();
  await withScriptedModel(home, tool('ls', {}));
  const service = home.start(['run', 'x']);
  service.child.stderr?.destroy();
  expect(await service.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('The tool said') });
});

test('two runs of one session, in processes of their own, go one after the other', async () => {
  const home = testHome();
  const upstream = await withScriptedModel(home, [
    { when: { last_user: 'first' }, ...text('slow', { hold_after_chunks: 1 }) },
    text('fast'),
  ]);
  const first = home.start(['run', 'first']);
  await upstream.latest(({ outcome }) => outcome === 'open');
  const second = home.start(['run', '--continue', 'second']);
  await second.until(() => second.stderr().includes('this one begins after it'));
  await upstream.releaseHeld();
  expect(await first.ended).toMatchObject({ code: 0, stdout: 'slow\n' });
  expect(await second.ended).toMatchObject({ code: 0, stdout: 'fast\n' });
  expect(JSON.stringify((await upstream.requests()).at(-1)?.body)).toMatch(/first.*slow.*second/);
});

test('a session is readable after its process was killed in the middle of a run', async () => {
  const home = testHome();
  await withScriptedModel(home, tool('bash', { command: 'sleep 20' }));
  const service = home.start(['run', '--yolo', 'the question']);
  await service.until(() => service.stderr().includes('● bash'));
  service.child.kill('SIGKILL');
  await service.ended;
  const [{ id }] = JSON.parse((await home.service(['sessions', 'list', '--json'])).stdout);
  const shown = await home.service(['sessions', 'show', id]);
  expect(shown).toMatchObject({ code: 0 });
  expect(shown.stdout).toMatch(/the question[\s\S]*● bash/);
});

test('two runs in one folder at once both get their answers', async () => {
  const home = testHome();
  await withScriptedModel(home, [text('{{last_user}} '.repeat(10), { chunk_delay_ms: 10 })]);
  const ended = await Promise.all(['one', 'two', 'three'].map((word) => home.service(['run', word])));
  expect(ended.map(({ code, stdout }) => [code, stdout.slice(0, 3)])).toEqual([
    [0, 'one'],
    [0, 'two'],
    [0, 'thr'],
  ]);
});

test('`options.data_directory` is where sessions and log are kept, and nothing is put elsewhere in the project', async () => {
  const home = testHome();
  const options = { data_directory: join(home.home, 'kept') };
  await withScriptedModel(home, [text('yes')], { options });
  expect(await home.service(['run', 'x'])).toMatchObject({ code: 0 });
  const [folder = ''] = readdirSync(options.data_directory).filter((name) => name.startsWith('data-'));
  expect(existsSync(join(options.data_directory, folder, 'service.db'))).toBe(true);
  expect(existsSync(join(options.data_directory, folder, 'logs/service.log'))).toBe(true);
  expect(existsSync(join(home.project, '.service'))).toBe(false);
});

test('`options.data_directory` that cannot be written is told with another to choose', async () => {
  const home = testHome();
  const file = home.write('a-file', '');
  home.write('.config/service/service.json', { options: { data_directory: join(file, 'below') } });
  const ended = await home.service(['run', 'x']);
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('options.data_directory') });
});

test.each([
  ['home', /cannot be kept in .*\.local\/share\/service: EROFS: .*\n.* XDG_DATA_HOME /],
  ['project', /cannot be kept in .*\.service: EROFS: .*\n.* options\.data_directory /],
] as const)('where the %s is read-only, it is told what else there is', async (which, said) => {
  const home = testHome();
  const mounts = ['--dev-bind', '/', '/', '--ro-bind', home[which], home[which]];
  if (which === 'home') mounts.push('--bind', home.project, home.project);
  const other = realpathSync(mkdtempSync(join(tmpdir(), 'service-data-')));
  onTestFinished(() => rmSync(other, { recursive: true }));
  const inside = (variables: object, ...words: string[]) =>
    runToEnd('bwrap', [...mounts, launcher, ...words], {
      cwd: home.project,
      environment: { ...home.environment, ...variables },
    });
  expect(await inside({}, 'run', 'x')).toMatchObject({ code: 1, stderr: expect.stringMatching(said) });
  const set = await inside({}, 'config', 'set', 'options.debug', 'true');
  expect(set).toMatchObject({ code: 2, stderr: expect.stringMatching(/\(EROFS: .*\)\. Choose a place/) });
  if (which === 'project') await inside({}, 'config', 'set', '--global', 'options.data_directory', other);
  const variables = which === 'home' ? { XDG_DATA_HOME: other } : {};
  expect(await inside(variables, 'run', 'x')).toMatchObject({ code: 0 });
});

test('`options.debug` writes more to the log, which is for its owner alone', async () => {
  const home = testHome();
  const settings = { hooks: { pre_tool_use: [{ command: 'exit 0' }] } };
  const rules = tool('ls', {});
  const levels = async (options: object) => {
    await withScriptedModel(home, rules, { ...settings, options });
    await home.service(['run', '-q', 'x']);
    const log = readFileSync(join(dataFolder(home), 'logs/service.log'), 'utf8').trimEnd();
    return log.split('\n').map((line) => JSON.parse(line).level);
  };
  expect(await levels({})).not.toContain(20);
  expect(await levels({ debug: true })).toContain(20);
  expect(statSync(join(dataFolder(home), 'logs/service.log')).mode & 0o777).toBe(0o600);
});

test('`options.debug_lsp` writes to the log what is said to language servers', async () => {
  const home = testHome();
  // It sends back what it is sent, which is no answer; the log shows what it was asked.
  const lsp = { echo: { command: 'cat', filetypes: ['txt'], timeout: 0.5 } };
  const logged = async (debug_lsp: boolean) => {
    const call = { name: 'write', arguments: { file_path: `${debug_lsp}.txt`, content: 'x' } };
    const rules = [{ when: { step: 0 }, reply: { tool_calls: [call] } }, text('Done.')];
    await withScriptedModel(home, rules, { lsp, options: { debug_lsp } });
    expect(await home.service(['run', '-q', '--yolo', 'x'])).toMatchObject({ code: 0 });
    return (await home.service(['logs'])).stdout;
  };
  expect(await logged(false)).not.toContain('language server protocol');
  expect(await logged(true)).toContain('language server protocol');
});

test('the database of a project is kept out of its repository', async () => {
  const home = testHome();
  await home.service(['run', '-q', 'x']);
  expect(readFileSync(join(home.project, '.service/.gitignore'), 'utf8')).toMatch(/^\*$/m);
});

test('--agent names who answers; a plan is shown in full with its id, and nothing else is changed', async () => {
  const home = testHome();
  const plan = { title: 'Mend it', content: '1. Look.\n2. Mend.' };
  await withScriptedModel(home, [
    { when: { step: 0, offers_tool: 'plan' }, ...call('plan', plan) },
    text('Here is what I would do.'),
  ]);
  const ended = await home.service(['run', '--agent', 'plan', 'Plan', 'it']);
  expect(ended).toMatchObject({ code: 0, stdout: 'Here is what I would do.\n' });
  expect(ended.stderr).toContain('▤ Mend it');
  expect(ended.stderr).toContain('1. Look.\n2. Mend.');
  expect(ended.stderr).toMatch(/The plan plan_[0-9a-z]{26}, version 1, waits for its approval\./);
  const unknown = await home.service(['run', '--agent', 'poet', 'x']);
  expect(unknown.code).not.toBe(0);
  expect(unknown.stderr).toContain('no agent profile "poet"');
});

test('agents of files are listed, and answer as they are told', async () => {
  const home = testHome();
  await withScriptedModel(home, [text('{{system}}')]);
  const file = (instructions: string) => `---\ndescription: Of a file.\n---\n${instructions}\n`;
  for (const folder of [join(home.project, '.service/agents'), join(home.home, '.config/service/agents')])
    mkdirSync(folder, { recursive: true });
  writeFileSync(join(home.project, '.service/agents/reviewer.md'), file('You review.'));
  writeFileSync(join(home.home, '.config/service/agents/poet.md'), file('You rhyme.'));
  const { stdout } = await home.service(['agents', 'list', '--json']);
  const listed: { slug: string; source: string }[] = JSON.parse(stdout);
  expect(listed.map(({ slug, source }) => `${slug} ${source}`)).toEqual([
    'coder builtin',
    'plan builtin',
    'poet global',
    'research builtin',
    'reviewer project',
    'task builtin',
  ]);
  expect((await home.service(['run', '-a', 'poet', 'x'])).stdout).toMatch(/^You rhyme\./);
  expect((await home.service(['run', '-a', 'reviewer', 'x'])).stdout).toMatch(/^You review\./);
});
