/** Measures what the command costs to start: CPU of `service version` and `service config show`, beside Node alone. */
import { type ExecFileSyncOptionsWithStringEncoding, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** How many times the CPU of `node -e 0` we promise at most. */
const promised = { 'service version': 2, 'service config show': 4 } as const;
const rounds = 21;
const launcher = join(import.meta.dirname, 'bin/service');
const baseline = 'node -e 0';

/** Three files, as a person, a project and its workspace have them: all are read, merged and shown. */
const files: Readonly<Record<string, object>> = {
  'config/service.json': {
    $schema: './service.schema.json',
    models: {
      large: { provider: 'anthropic', model: 'claude-sonnet-5', max_tokens: 16000, think: true },
      small: { provider: 'gateway', model: 'small-1' },
    },
    providers: {
      anthropic: { api_key: '$ANTHROPIC_API_KEY' },
      gateway: {
        name: 'Our gateway',
        type: 'openai-compat',
        base_url: '$GATEWAY_URL',
        api_key: '$GATEWAY_KEY',
        extra_headers: { 'X-Team': 'search' },
        models: [{ id: 'small-1', context_window: 128000, default_max_tokens: 4096 }, { id: 'large-1' }],
      },
    },
    mcp: { issues: { type: 'http', url: 'https://mcp.example.com', headers: { Authorization: '$ISSUES' } } },
    options: { notification_style: 'bell', tui: { diff_mode: 'split', completions: { max_items: 200 } } },
    permissions: { allowed_tools: ['view', 'ls', 'grep', 'edit:write'] },
  },
  'project/service.json': {
    options: { disabled_tools: ['fetch'], attribution: { trailer_style: 'none' }, context_paths: ['docs'] },
    tools: { grep: { timeout: '10s' }, ls: { max_depth: 3 } },
    lsp: { go: { command: 'gopls', root_markers: ['go.mod'] } },
    hooks: { pre_tool_use: [{ matcher: '^bash$', command: './guard.sh', timeout: 10 }] },
  },
  'project/.service/service.json': { models: { small: { provider: 'gateway', model: 'large-1' } } },
};

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'service-bench-')));
const surroundings = {
  cwd: join(folder, 'project'),
  env: { PATH: process.env.PATH, HOME: folder, SERVICE_GLOBAL_CONFIG: join(folder, 'config'), LC_ALL: 'C' },
  stdio: ['ignore', 'pipe', 'pipe'],
  encoding: 'utf8',
} satisfies ExecFileSyncOptionsWithStringEncoding;
try {
  prepare();
  const commands: Readonly<Record<string, readonly string[]>> = {
    [baseline]: [process.execPath, '-e', '0'],
    'service version': [launcher, 'version'],
    'service config show': [launcher, 'config', 'show'],
  };
  // The first start fills the cache of compiled code, which is what every later one finds.
  for (const [program = '', ...args] of Object.values(commands)) execFileSync(program, args, surroundings);
  const measured = new Map(Object.keys(commands).map((name): [string, number[]] => [name, []]));
  // In turns, so that whatever else the machine does meets all of them alike.
  for (let round = 0; round < rounds; round += 1)
    for (const [name, command] of Object.entries(commands)) measured.get(name)?.push(cpuMs(command));
  process.exitCode = report(new Map([...measured].map(([name, times]) => [name, median(times)])));
} finally {
  rmSync(folder, { recursive: true });
}

function prepare(): void {
  for (const [file, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), JSON.stringify(content, null, 2));
  }
  mkdirSync(join(folder, 'project/.git'));
  writeFileSync(join(folder, 'project/.git/HEAD'), 'ref: refs/heads/main\n');
}

/** User and system time of the whole command. Bash tells it to the millisecond, Node of its children not at all. */
function cpuMs(command: readonly string[]): number {
  const script = '{ time "$@" >/dev/null 2>&1 </dev/null || exit 1; } 2>&1';
  const timed = ['-c', `TIMEFORMAT='%3U %3S'; ${script}`, 'bench', ...command];
  const times = execFileSync('bash', timed, surroundings);
  return times.split(' ').reduce((sum, seconds) => sum + Number(seconds) * 1000, 0);
}

function median(times: readonly number[]): number {
  return times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? Number.NaN;
}

function report(medians: ReadonlyMap<string, number>): number {
  const base = medians.get(baseline) ?? Number.NaN;
  const rows = Object.entries(promised).map(([name, limit]) => {
    const ms = medians.get(name) ?? Number.NaN;
    return { name, ms, limit, ratio: ms / base };
  });
  process.stdout.write(`CPU of a start with a warm cache, median of ${rounds} rounds\n`);
  process.stdout.write(`  ${baseline.padEnd(34)} ${base.toFixed(0)} ms\n`);
  for (const { name, ms, ratio, limit } of rows)
    process.stdout.write(
      `  ${name.padEnd(34)} ${ms.toFixed(0)} ms, ratio ${ratio.toFixed(2)}; promised at most ${limit}\n`,
    );
  return rows.every(({ ratio, limit }) => ratio <= limit) ? 0 : 1;
}
