/** Starts a coding agent of others in a home and a folder of its own, and writes down whom it speaks to. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

/** A tool of the agent itself. */
interface OwnTool {
  readonly name: string;
  readonly arguments: Readonly<Record<string, string>>;
}

/** What an agent is told of the server and of its task. */
export interface Terms {
  readonly url: string;
  readonly key: string;
  readonly model: string;
  readonly prompt: string;
}

export interface Agent {
  readonly name: string;
  /** `{{match.file}}` stands for the file, as the task names it. */
  readonly read: OwnTool;
  readonly edit: OwnTool;
  command(terms: Terms): readonly [string, ...string[]];
  /** Also all that keeps it from speaking to anybody else: its vendor, a registry. */
  environment(terms: Terms): Readonly<Record<string, string>>;
  /** What it reads of a file in its folder. */
  settings?(terms: Terms): { readonly name: string; readonly content: object };
}

export interface Work {
  readonly exitCode: number | null;
  readonly printed: string;
  /** What the file holds in the end. */
  readonly file: string;
  /** Each address that was named; null where nothing can tell. */
  readonly reached: readonly string[] | null;
}

const wrong = 'def add(a, b):\n    return a - b\n';

/** Lets the agent work on one file, whose name stands in the prompt for `FILE`. */
export async function work(agent: Agent, terms: Terms): Promise<Work> {
  const base = await mkdtemp(join(tmpdir(), 'service-agent-'));
  const [folder, home, trace] = [join(base, 'project'), join(base, 'home'), join(base, 'trace')];
  const file = join(folder, 'calc.py');
  try {
    await mkdir(folder);
    await mkdir(home);
    await writeFile(file, wrong);
    const told = { ...terms, prompt: terms.prompt.replace('FILE', file) };
    const settings = agent.settings?.(told);
    if (settings) await writeFile(join(folder, settings.name), JSON.stringify(settings.content));
    const ended = await run(agent, told, { folder, home, trace });
    return { ...ended, file: await readFile(file, 'utf8'), reached: await addressesIn(trace) };
  } finally {
    await rm(base, { recursive: true, force: true });
  }
}

async function run(agent: Agent, terms: Terms, places: { folder: string; home: string; trace: string }) {
  const [program, ...args] = [...tracer(places.trace), ...agent.command(terms)];
  const child = spawn(program ?? '', args, {
    cwd: places.folder,
    env: { PATH: process.env.PATH, HOME: places.home, ...agent.environment(terms) },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 100_000,
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
  await once(child, 'close');
  return { exitCode: child.exitCode, printed };
}

/** Follows every process and writes down whatever names an address. */
function tracer(record: string): string[] {
  if (!findStrace()) return [];
  const calls = 'connect,sendto,sendmsg,sendmmsg';
  return ['strace', '--follow-forks', '--seccomp-bpf', `--trace=${calls}`, '--output', record];
}

export function findStrace(): boolean {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, 'strace')));
}

async function addressesIn(record: string): Promise<string[] | null> {
  if (!existsSync(record)) return null;
  const text = await readFile(record, 'utf8');
  const named = text.matchAll(/inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"/g);
  return [...new Set([...named].map(([, four, six]) => four ?? six ?? ''))];
}

/** The program of this machine's kind, out of the package that was installed for it; `npm` starts none of their scripts. */
export function installed(pattern: string): string {
  const found = globSync(pattern, { cwd: join(import.meta.dirname, 'node_modules') }).toSorted();
  // A build for older processors runs on all of them.
  const chosen = found.find((path) => path.includes('baseline')) ?? found[0];
  if (chosen === undefined) throw new Error(`${pattern} is not installed; "make agents" installs it`);
  return join(import.meta.dirname, 'node_modules', chosen);
}
