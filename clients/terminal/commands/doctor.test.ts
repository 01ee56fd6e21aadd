/** The doctor: one planted fault for each thing that it looks at, which it finds, and does not find where there is none. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import { examineAll, type Finding } from '../doctor/examination.ts';
import { codeFinding, nodeFinding } from '../doctor/installation.ts';
import { firstWord } from '../doctor/programs.ts';
import { spaceFinding } from '../doctor/project.ts';
import { findProgram } from '../search-path.ts';
import { dataFolder, launcher, type TestHome, testHome } from '../test-command.ts';
import { runToEnd } from '../test-process.ts';

/** One finding of `--json`. */
interface Told {
  readonly check: string;
  readonly level: string;
  readonly message: string;
  readonly remedy: string | null;
  readonly file: string | null;
  readonly line: number | null;
}

type Variables = Readonly<Record<string, string | undefined>>;

/** What every case has, so that nothing but its fault is wrong. */
const usable = { OPENAI_API_KEY: 'sk-test' };

async function diagnose(home: TestHome, variables: Variables = {}) {
  const { code, stdout, stderr } = await home.service(['doctor', '--json'], {
    variables: { ...usable, ...variables },
  });
  const { problems, findings } = JSON.parse(stdout) as { problems: number; findings: readonly Told[] };
  return { code, stderr, problems, findings };
}

/** What is found where nothing was planted: asked once, by whichever test is first. */
let healthy: Promise<Awaited<ReturnType<typeof diagnose>>> | undefined;
function whereNothingIsWrong() {
  healthy ??= diagnose(testHome());
  return healthy;
}

const bwrap = findProgram('bwrap', process.env.PATH, tmpdir());

test.skipIf(bwrap === null)(
  'whether the kernel bounds all processes of a command together is said, and why not where it does not',
  async () => {
    const { environment, project } = testHome();
    const variables = { ...environment, ...usable };
    const look = async (program: string, args: readonly string[]) => {
      const { stdout } = await runToEnd(program, [...args, 'doctor', '--json'], {
        cwd: project,
        environment: variables,
      });
      const { findings } = JSON.parse(stdout) as { findings: readonly Told[] };
      return findings.filter(({ message }) => /total|bounds all processes/.test(message));
    };
    // As in most containers, where nobody may write in the folders of the kernel's groups.
    const withoutGroups = ['--dev-bind', '/', '/', '--ro-bind', '/sys/fs/cgroup', '/sys/fs/cgroup', launcher];
    expect(await look('bwrap', withoutGroups)).toEqual([
      expect.objectContaining({
        check: 'sandbox',
        level: 'ok',
        message: expect.stringMatching(
          /total .* is unbounded; each has a limit of its own \(no control groups: .+\)/,
        ),
        remedy: expect.stringContaining('Delegate=yes'),
      }),
    ]);
    expect(await look(launcher, [])).toHaveLength(1);
  },
);

test('where nothing is wrong there is no problem, and the exit code says so', async () => {
  const { code, problems, stderr, findings } = await whereNothingIsWrong();
  expect({ code, problems, stderr }).toEqual({ code: 0, problems: 0, stderr: '' });
  expect(findings.length).toBeGreaterThan(25);
});

/** The name of the check, how bad it is, what the message and the remedy say, and how the fault is planted. */
type Case = readonly [
  fault: string,
  check: string,
  level: 'warning' | 'problem',
  message: RegExp,
  remedy: RegExp,
  plant: (home: TestHome) => Variables | undefined,
];

const globalFile = '.config/service/service.json';
const dataHome = '.local/share/service';

const cases: readonly Case[] = [
  [
    'a cache that others can write',
    'compiled code',
    'warning',
    /every start is slow/,
    /service\/compiled/,
    ({ home }) => {
      mkdirSync(join(home, 'caches'));
      chmodSync(join(home, 'caches'), 0o777);
      return { XDG_CACHE_HOME: join(home, 'caches') };
    },
  ],
  [
    'another service on PATH',
    'command',
    'warning',
    /the shell starts another program: .*\/sbin\/service/,
    /make link NAME=svc/,
    (home) => ({ PATH: `${folderWith(home, 'sbin', { service: '' })}:${home.environment.PATH}` }),
  ],
  [
    'certificates that are not checked',
    'node variables',
    'problem',
    /anybody on the way/,
    /Unset it/,
    () => ({ NODE_TLS_REJECT_UNAUTHORIZED: '0' }),
  ],
  [
    'a file of certificates that is not there',
    'node variables',
    'warning',
    /NODE_EXTRA_CA_CERTS names a file that is not there/,
    /Correct it/,
    () => ({ NODE_EXTRA_CA_CERTS: '/nowhere.pem' }),
  ],
  [
    'a proxy that Node does not use',
    'node variables',
    'warning',
    /A proxy is set/,
    /NODE_USE_ENV_PROXY=1/,
    () => ({ HTTPS_PROXY: 'http://127.0.0.1:9' }),
  ],
  ['a dumb terminal', 'terminal', 'warning', /TERM is dumb/, /set TERM/, () => ({ TERM: 'dumb' })],
  ['a locale without UTF-8', 'terminal', 'warning', /has no UTF-8/, /C\.UTF-8/, () => ({ LANG: 'C' })],
  [
    'a file that is no JSON',
    'settings',
    'problem',
    /not JSON/,
    /Write JSON/,
    ({ write }) => void write(globalFile, '{ "options": '),
  ],
  [
    'a value of the wrong type',
    'settings',
    'problem',
    /\/options\/debug: This is a string; expected true or false/,
    /./,
    ({ write }) => void write('project/service.json', { options: { debug: 'yes' } }),
  ],
  [
    'a key that stands twice',
    'settings',
    'problem',
    /stands here twice/,
    /Keep one/,
    ({ write }) => void write('project/service.json', '{ "tools": {}, "tools": {} }'),
  ],
  [
    'a key that nobody knows',
    'settings',
    'warning',
    /"max_dept" is not known/,
    /Did you mean "max_depth"/,
    ({ write }) => void write('project/service.json', { tools: { ls: { max_dept: 3 } } }),
  ],
  [
    'a deprecated key',
    'settings',
    'warning',
    /disable_notifications/,
    /notification_style/,
    ({ write }) => void write(globalFile, { options: { disable_notifications: true } }),
  ],
  [
    'a hook whose matcher is no regular expression',
    'settings',
    'problem',
    /matcher/,
    /./,
    ({ write }) =>
      void write(globalFile, { hooks: { pre_tool_use: [{ command: 'true', matcher: '(bash' }] } }),
  ],
  [
    'a settings file with a name that nobody reads',
    'file names',
    'warning',
    /service\.jsonc is not read/,
    /rename it/,
    ({ write }) => void write('project/service.jsonc', '{}'),
  ],
  [
    'a global folder that others can write',
    'global folder',
    'problem',
    /Others can write .*\/\.config\/service,/,
    /chmod go-w/,
    ({ write, home }) => {
      write(globalFile, '{}');
      chmodSync(join(home, '.config/service'), 0o777);
    },
  ],
  [
    'a global file that others can write',
    'global folder',
    'problem',
    /Others can write .*service\.json,/,
    /chmod go-w/,
    ({ write }) => void chmodSync(write(globalFile, '{}'), 0o666),
  ],
  [
    'a base folder that is relative',
    'global folder',
    'warning',
    /XDG_DATA_HOME is no absolute path/,
    /absolute/,
    () => ({ XDG_DATA_HOME: 'data' }),
  ],
  [
    'a key in a project file',
    'secrets',
    'warning',
    /\/providers\/gateway\/api_key: The secret itself stands in a file which belongs to a project/,
    /Put it into a variable/,
    ({ write }) => void write('project/service.json', { providers: { gateway: { api_key: 'sk-literal' } } }),
  ],
  [
    'a key in a global file that others can read',
    'secrets',
    'warning',
    /which others can read/,
    /chmod 600/,
    ({ write }) => void write(globalFile, { providers: { openai: { api_key: 'sk-literal' } } }),
  ],
  [
    'a schema of another version',
    'schema',
    'warning',
    /service\.schema\.json is not the schema of this version/,
    /service schema >/,
    ({ write }) => {
      write('project/service.json', { $schema: './service.schema.json' });
      write('project/service.schema.json', {});
    },
  ],
  [
    'a schema that is not there',
    'schema',
    'warning',
    /\$schema names a file that is not there/,
    /service schema >/,
    ({ write }) => void write('project/service.json', { $schema: './nowhere.json' }),
  ],
  [
    'a misspelt variable',
    'variables',
    'warning',
    /SERVICE_PROT is not a setting/,
    /service serve --help/,
    () => ({ SERVICE_PROT: '1' }),
  ],
  [
    'a variable with a value that nobody understands',
    'variables',
    'warning',
    /SERVICE_PORT must be/,
    /service serve/,
    () => ({ SERVICE_PORT: 'eighty' }),
  ],
  [
    'a variable that is demanded and not set',
    'templates',
    'warning',
    /\/mcp\/issues\/env\/TOKEN: The variable ISSUES_TOKEN is not set/,
    /Set it/,
    ({ write }) =>
      void write(globalFile, { mcp: { issues: { command: 'sh', env: { TOKEN: `$\{ISSUES_TOKEN:?}` } } } }),
  ],
  [
    'a template that is broken',
    'templates',
    'warning',
    /\/lsp\/go\/args\/0: After the name of a variable/,
    /dollar sign/,
    ({ write }) => void write(globalFile, { lsp: { go: { command: 'sh', args: [`$\{HOME`] } } }),
  ],
  [
    'a file that is not trusted',
    'trust',
    'warning',
    /hooks does not count/,
    /service trust/,
    ({ write }) => void write('project/service.json', { hooks: { pre_tool_use: [{ command: 'true' }] } }),
  ],
  [
    'a trust store that others can read',
    'trust store',
    'problem',
    /Others than you may read or write the trust store/,
    /chmod 600/,
    (home) => void chmodSync(privately(home, 'trust.json', '{"version":1,"files":{}}'), 0o644),
  ],
  [
    'a trust store that is a link',
    'trust store',
    'problem',
    /symbolic link/,
    /copy|remove/,
    (home) => void symlinkSync('/dev/null', join(privateFolder(home), 'trust.json')),
  ],
  [
    'a damaged trust store',
    'trust store',
    'problem',
    /damaged/,
    /Mend it/,
    (home) => void privately(home, 'trust.json', '{'),
  ],
  [
    'a folder of secrets that is open to others',
    'personal data',
    'problem',
    /open to others/,
    /chmod 700/,
    (home) => void chmodSync(privateFolder(home), 0o755),
  ],
  [
    'a master key that others can read',
    'master key',
    'problem',
    /Others can read the master key/,
    /chmod 600/,
    (home) => void chmodSync(privately(home, 'master.key', masterKey), 0o640),
  ],
  [
    'a master key that is none',
    'master key',
    'problem',
    /holds no master key/,
    /Put back a copy/,
    (home) => void privately(home, 'master.key', 'not a key'),
  ],
  [
    'a master key that has lost its end',
    'master key',
    'problem',
    /holds no master key/,
    /Put back a copy/,
    (home) => void privately(home, 'master.key', masterKey.replace('=', '')),
  ],
  [
    'a data directory that is a file',
    'data directory',
    'problem',
    /is no folder/,
    /data_directory/,
    ({ write }) => void write('project/.service', 'a file'),
  ],
  [
    'a data directory where nothing can be written',
    'data directory',
    'problem',
    /Nothing can be written to .*a-file/,
    /options\.data_directory/,
    ({ write }) => {
      write('project/a-file', '');
      write(globalFile, { options: { data_directory: 'a-file/data' } });
    },
  ],
  [
    'sessions that would be committed',
    'data directory',
    'warning',
    /Nothing keeps the sessions .* out of the repository/,
    /\.gitignore/,
    (home) => void database(home, 1),
  ],
  [
    'sessions that others can read',
    'data directory',
    'warning',
    /Others can read the sessions/,
    /chmod 600/,
    (home) => void database(home, 1),
  ],
  [
    'a database of a newer version',
    'database',
    'problem',
    /newer version of service: its schema is 9999/,
    /version that wrote it/,
    (home) => void database(home, 9999),
  ],
  [
    'a database that is none',
    'database',
    'problem',
    /not a database/,
    /move it away/,
    ({ home, project, write }) => {
      const file = relative(home, join(dataFolder({ home, project }), 'service.db'));
      write(file, 'no database'.repeat(200));
    },
  ],
  [
    'no provider at all',
    'providers',
    'warning',
    /No model provider can be asked, so that the built-in demonstration answers/,
    /OPENAI_API_KEY/,
    () => ({ OPENAI_API_KEY: undefined }),
  ],
  [
    'a provider that cannot be used, and is chosen',
    'providers',
    'problem',
    /The provider anthropic cannot be used: The provider has no API key/,
    /\$NO_SUCH_KEY/,
    ({ write }) =>
      void write(globalFile, {
        providers: { anthropic: { api_key: '$NO_SUCH_KEY' } },
        models: { large: { provider: 'anthropic', model: 'claude-sonnet-5' } },
      }),
  ],
  [
    'a provider that cannot be used',
    'providers',
    'warning',
    /The provider gateway cannot be used: .* needs a base_url/,
    /base_url/,
    ({ write }) => void write(globalFile, { providers: { gateway: { models: [{ id: 'one' }] } } }),
  ],
  [
    'a model that its provider does not have',
    'models',
    'warning',
    /\/models\/small\/model: The provider has no such model/,
    /Did you mean "fast"/,
    ({ write }) =>
      void write(globalFile, {
        providers: { gateway: { ...gateway, models: [{ id: 'fast' }] } },
        models: { small: { provider: 'gateway', model: 'fats' } },
      }),
  ],
  [
    'a model server that does not run',
    'local servers',
    'warning',
    /Nothing listens at 127\.0\.0\.1:9,/,
    /Start it/,
    ({ write }) => void write(globalFile, { providers: { gateway } }),
  ],
  ['no ripgrep', 'tools', 'warning', /rg is not on PATH/, /Install ripgrep/, (home) => withoutTools(home)],
  ['no git', 'tools', 'warning', /git is not on PATH/, /Install git/, (home) => withoutTools(home)],
  [
    'no bubblewrap',
    'sandbox',
    'warning',
    /bwrap\) is not on PATH/,
    /Install bubblewrap/,
    (home) => withoutTools(home),
  ],
  [
    'commands that no other user keeps from the key',
    'sandbox',
    'warning',
    /can read the master key(,| and) the database/,
    /Give the workspaces to an ordinary user|disabled_tools/,
    (home) => withoutTools(home),
  ],
  [
    'a bubblewrap that the kernel does not let work',
    'sandbox',
    'warning',
    /does not work here: No permissions to create namespaces/,
    /namespaces/,
    (home) => {
      const bwrap = '#!/bin/sh\necho "No permissions to create namespaces" >&2\nexit 1\n';
      return { PATH: `${folderWith(home, 'bin', { bwrap })}:${home.environment.PATH}` };
    },
  ],
  [
    'a bubblewrap that is too old for what commands get',
    'sandbox',
    'warning',
    /older than 0\.8/,
    /version 0\.8/,
    (home) => {
      // As version 0.6 has it.
      const bwrap = `#!/bin/sh
for word; do
  case "$word" in --disable-userns) echo "bwrap: Unknown option $word" >&2; exit 1 ;; esac
done
`;
      return { PATH: `${folderWith(home, 'bin', { bwrap })}:${home.environment.PATH}` };
    },
  ],
  [
    'a hook whose program is not there',
    'hooks',
    'problem',
    /hooks\.pre_tool_use\[0\] cannot run, so that it denies every call .* "\.\/guard\.sh"/,
    /chmod \+x/,
    ({ write }) =>
      void write(globalFile, { hooks: { pre_tool_use: [{ command: 'STRICT=1 ./guard.sh --all' }] } }),
  ],
  [
    'a hook whose program may not be run',
    'hooks',
    'problem',
    /"\.\/guard\.sh"/,
    /chmod \+x/,
    ({ write }) => {
      write('project/guard.sh', '#!/bin/sh\n');
      write(globalFile, { hooks: { pre_tool_use: [{ command: './guard.sh' }] } });
    },
  ],
  [
    'a hook that lets pass what it cannot look at',
    'hooks',
    'warning',
    /it guards nothing/,
    /Correct its command/,
    ({ write }) =>
      void write(globalFile, { hooks: { pre_tool_use: [{ command: 'no-such-guard', on_error: 'allow' }] } }),
  ],
  [
    'an MCP server whose program is not there',
    'mcp',
    'warning',
    /mcp\.files cannot be started: there is no program "no-such-mcp"/,
    /Install it/,
    ({ write }) => void write(globalFile, { mcp: { files: { command: 'no-such-mcp' } } }),
  ],
  [
    'a language server whose program is not there',
    'lsp',
    'warning',
    /lsp\.go cannot be started: there is no program "no-such-lsp"/,
    /Install it/,
    ({ write }) => void write(globalFile, { lsp: { go: { command: 'no-such-lsp' } } }),
  ],
  [
    'a server that is not there any more',
    'logins',
    'warning',
    /http:\/\/127\.0\.0\.1:9 cannot be reached/,
    /service logout http:\/\/127\.0\.0\.1:9/,
    (home) => {
      const logins = { 'http://127.0.0.1:9': { login: { kind: 'api_key', key: 'sk-login' } } };
      chmodSync(privately(home, 'logins.json', JSON.stringify({ logins })), 0o600);
    },
  ],
  [
    'logins that others can read',
    'logins',
    'problem',
    /can be read by others/,
    /./,
    (home) => void chmodSync(privately(home, 'logins.json', '{"logins":{}}'), 0o644),
  ],
];

describe('a planted fault is found, with what to do about it', () => {
  test.each(cases)('%s', async (_, check, level, message, remedy, plant) => {
    const home = testHome();
    const { code, problems, findings } = await diagnose(home, plant(home) ?? {});
    const isIt = (one: Told) => one.check === check && one.level === level && message.test(one.message);
    const found = findings.find(isIt);
    expect(found, JSON.stringify(findings, null, 2)).toBeDefined();
    if (found?.remedy !== null) expect(found?.remedy).toMatch(remedy);
    expect((await whereNothingIsWrong()).findings.some(isIt)).toBe(false);
    expect(code).toBe(problems > 0 ? 1 : 0);
    if (level === 'problem') expect(problems).toBeGreaterThan(0);
  });
});

test('what settings can say where something stands has its file and line', async () => {
  const home = testHome();
  const file = home.write(globalFile, '{\n  "options": {\n    "debgu": true\n  }\n}\n');
  const { findings } = await diagnose(home);
  expect(findings).toContainEqual(expect.objectContaining({ check: 'settings', file, line: 3 }));
  const { stdout } = await home.service(['doctor'], { variables: usable });
  expect(stdout).toMatch(/^warning\tsettings\t.*service\.json:3: .*"debgu"/m);
});

test('a program is looked for where the settings of its server have it looked for', async () => {
  const home = testHome();
  const env = { PATH: folderWith(home, 'own', { 'house-lsp': '', 'house-mcp': '' }) };
  home.write(globalFile, {
    lsp: { go: { command: 'house-lsp', env } },
    mcp: { files: { command: 'house-mcp', env } },
  });
  const { findings } = await diagnose(home);
  for (const section of ['lsp', 'mcp'])
    expect(findings.filter(({ check }) => check === section)).toMatchObject([{ level: 'ok' }]);
});

test('nothing that settings name is run, trusted or not', async () => {
  const home = testHome();
  const canary = (name: string) => `touch '${home.home}/ran-${name}'`;
  const settings = (scope: string) => ({
    providers: { gateway: { ...gateway, api_key: `$(${canary(`${scope}-key`)})` } },
    hooks: { pre_tool_use: [{ command: canary(`${scope}-hook`) }] },
    mcp: { files: { command: 'sh', args: ['-c', canary(`${scope}-mcp`)] } },
    lsp: { go: { command: 'sh', args: ['-c', canary(`${scope}-lsp`)] } },
  });
  home.write(globalFile, settings('global'));
  home.write('project/service.json', settings('project'));
  const { findings } = await diagnose(home);
  expect(findings.filter(({ check }) => check === 'hooks')).toMatchObject([{ level: 'ok' }]);
  const names = ['key', 'hook', 'mcp', 'lsp'].flatMap((name) => [`global-${name}`, `project-${name}`]);
  expect(names.filter((name) => existsSync(join(home.home, `ran-${name}`)))).toEqual([]);
});

test('a secret in a URL is found, and not what may be none', async () => {
  const url = 'https://ann:pw-in-url@h.example/?team=a';
  const home = testHome();
  home.write('project/service.json', {
    providers: { own: { base_url: url }, azure: { base_url: 'https://a.example/?api-version=2026-01-01' } },
    mcp: { keyed: { type: 'http', url: 'https://h.example/mcp?api_key=k-in-url' } },
  });
  const { stdout } = await home.service(['doctor']);
  expect(stdout).toMatch(/\/providers\/own\/base_url: The secret itself stands in a file/);
  expect(stdout).toMatch(/\/mcp\/keyed\/url: The secret itself stands in a file/);
  expect(stdout).not.toMatch(/azure\/base_url: The secret|in-url/);
});

test('no secret is shown', async () => {
  const home = testHome();
  home.write(globalFile, { providers: { openai: { api_key: 'sk-literal-secret' } } });
  const told = await home.service(['doctor'], { variables: { OPENAI_API_KEY: 'sk-environment-secret' } });
  expect(told.stdout + told.stderr).not.toMatch(/sk-(literal|environment)-secret/);
});

test('where the settings cannot be used all else is still looked at', async () => {
  const home = testHome();
  home.write(globalFile, '{');
  const { code, findings } = await diagnose(home, { TERM: 'dumb' });
  expect(code).toBe(1);
  expect(findings).toContainEqual(expect.objectContaining({ check: 'terminal', level: 'warning' }));
  expect(findings).toContainEqual(
    expect.objectContaining({
      check: 'hooks',
      level: 'warning',
      message: expect.stringContaining('not looked at'),
    }),
  );
});

test('a link of another name on PATH is what the shell starts', async () => {
  const home = testHome();
  const folder = folderWith(home, 'bin', { service: '' });
  symlinkSync(launcher, join(folder, 'svc'));
  const { stdout } = await runToEnd(join(folder, 'svc'), ['doctor', '--json'], {
    cwd: home.project,
    environment: { ...home.environment, PATH: `${folder}:${home.environment.PATH}` },
  });
  const { findings } = JSON.parse(stdout) as { findings: readonly Told[] };
  expect(findings).toContainEqual(
    expect.objectContaining({
      check: 'command',
      level: 'ok',
      message: expect.stringContaining(`${folder}/svc`),
    }),
  );
});

test('at a terminal that is too small it says so, with signs, and counts', async () => {
  const home = testHome();
  const command = `stty cols 60 rows 10; '${launcher}' doctor`;
  const { stdout } = await runToEnd('script', ['-qec', command, '/dev/null'], {
    cwd: home.project,
    environment: { ...home.environment, ...usable, TERM: 'xterm-256color', NO_COLOR: '1' },
  });
  expect(stdout).toContain('! terminal');
  expect(stdout).toContain('The terminal has 60 columns and 10 rows.');
  expect(stdout).toContain('→ Make it at least 80 by 24.');
  expect(stdout).toMatch(/No problems, \d+ warnings?\./);
});

describe('the parts that a process cannot show', () => {
  test('another Node than the pinned one is a problem', () => {
    expect(nodeFinding('24.21.0', '24.21.0').level).toBe('ok');
    expect(nodeFinding('20.0.0', '24.21.0')).toMatchObject({
      level: 'problem',
      message: expect.stringContaining('20.0.0'),
    });
  });

  test('generated code that is missing, or older than its contract, is told', () => {
    const root = mkdtempSync(join(tmpdir(), 'service-checkout-'));
    onTestFinished(() => rmSync(root, { recursive: true }));
    for (const folder of ['server/contract', 'clients/typescript/generated', 'schemas', 'node_modules'])
      mkdirSync(join(root, folder), { recursive: true });
    expect(codeFinding(root)).toMatchObject({ level: 'problem', remedy: 'Run: make generate' });
    const names = ['api.ts', 'config.ts', 'routes.ts', 'service.schema.json'];
    for (const name of names) writeFileSync(join(root, 'server/contract', name), '');
    expect(codeFinding(root)).toMatchObject({ level: 'ok' });
    writeFileSync(join(root, 'schemas/run.yaml'), '');
    const later = new Date(Date.now() + 60_000);
    utimesSync(join(root, 'schemas/run.yaml'), later, later);
    expect(codeFinding(root)).toMatchObject({
      level: 'warning',
      message: expect.stringContaining('schemas/run.yaml'),
    });
  });

  test.each([
    [1024 ** 3, 'ok'],
    [100 * 1024 ** 2, 'warning'],
    [1024 ** 2, 'problem'],
  ])('%d free bytes are %s', (free, level) => {
    expect(spaceFinding('/data', free).level).toBe(level);
  });

  test('a check that breaks or takes too long is told, and the others go on', async () => {
    const scene = {} as Parameters<typeof examineAll>[1]; // these checks do not look at it
    const fine: Finding = { level: 'ok', message: 'Fine.' };
    const checks = [
      { name: 'broken', look: () => Promise.reject(new Error('It broke')) },
      { name: 'slow', look: () => new Promise<never>(() => undefined) },
      { name: 'fine', look: () => [fine] },
    ];
    expect(await examineAll(checks, scene, 20)).toEqual([
      { check: 'broken', level: 'problem', message: 'This could not be looked at: It broke' },
      { check: 'slow', level: 'warning', message: 'No answer within 0.02 seconds.' },
      { check: 'fine', ...fine },
    ]);
  });

  test.each([
    ['./guard.sh --all', './guard.sh'],
    ['A=1 B=two guard', 'guard'],
    ['"./my guard.sh" x', './my guard.sh'],
    ['exec guard', 'exec'],
    ['$HOME/guard.sh', null],
    ['(guard)', null],
    ['~/guard.sh', null],
    ['A=$(x) guard', null],
    ['guard;true', 'guard'],
  ])('the first word of %j is %j', (command, word) => {
    expect(firstWord(command)).toBe(word);
  });
});

const gateway = {
  type: 'openai-compat',
  base_url: 'http://127.0.0.1:9/v1',
  api_key: 'sk-gateway',
  models: [{ id: 'one' }],
};
const masterKey = `${Buffer.alloc(32, 7).toString('base64')}\n`;

/** Programs in a folder of the home. */
function folderWith({ home }: TestHome, name: string, programs: Readonly<Record<string, string>>): string {
  const folder = join(home, name);
  mkdirSync(folder);
  for (const [program, text] of Object.entries(programs))
    writeFileSync(join(folder, program), text, { mode: 0o755 });
  return folder;
}

function privateFolder({ home }: TestHome): string {
  mkdirSync(join(home, dataHome), { recursive: true, mode: 0o700 });
  return join(home, dataHome);
}

function privately(home: TestHome, name: string, text: string): string {
  const file = join(privateFolder(home), name);
  writeFileSync(file, text, { mode: 0o600 });
  return file;
}

/** A database that says of itself which version it is. */
function database(home: TestHome, version: number): void {
  const folder = dataFolder(home);
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const file = join(folder, 'service.db');
  const sql = new DatabaseSync(file);
  sql.exec(`create table schema_versions (version integer, name text);
    insert into schema_versions values (${version}, 'accounts')`);
  sql.close();
  chmodSync(file, 0o644);
}

/** A PATH with no more than the launcher itself needs. */
function withoutTools(home: TestHome): Variables {
  const folder = folderWith(home, 'tools', {});
  for (const name of ['sh', 'dirname', 'readlink'])
    symlinkSync(findProgram(name, process.env.PATH, '/') ?? name, join(folder, name));
  return { PATH: folder };
}
