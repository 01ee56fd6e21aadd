/** Language servers for the tests: the extension alone, in a workspace of its own, with the small server of the tests. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import type { ClientConfig, LanguageServer } from '../../contract/config.ts';
import { processStat } from '../../process-stat.ts';
import type { ExtensionParts } from '../extension.ts';
import { testExtensionParts } from '../test-extension.ts';
import { callTool, type TestWorkspace, testWorkspace, toolNamed } from '../tools/test-workspace.ts';
import type { ToolOutput } from '../tools/tool.ts';
import { type LspTimes, usualTimes } from './language-server.ts';
import { createLsp } from './lsp.ts';

const program = join(import.meta.dirname, 'test-server.ts');

/** What the small server has noted. */
export interface Note {
  readonly id?: number;
  readonly pid?: number;
  readonly child?: number;
  readonly cwd?: string;
  readonly environment?: Record<string, string>;
  readonly method?: string;
  // Whatever the protocol says of the method; the tests know.
  readonly params?: Record<string, unknown>;
  readonly result?: unknown;
}

export interface LspBench {
  readonly workspace: TestWorkspace;
  /** Where the small server writes its notes. */
  readonly notesFile: string;
  /** What the model is told after a change of this file. */
  note(name: string, content?: string, signal?: AbortSignal): Promise<string>;
  call(tool: string, input: object, signal?: AbortSignal): Promise<ToolOutput>;
  notes(): readonly Note[];
  apply(config: ClientConfig, shared?: boolean): Promise<void>;
  states(): readonly string[];
  read(name: string): void;
  offered(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** Short enough for tests, long enough for a machine that is busy. */
export const shortTimes: LspTimes = {
  ...usualTimes,
  startWaitMs: 8000,
  judgeMs: 20_000,
  quietMs: 100,
  requestMs: 4000,
};

export interface BenchOptions {
  readonly times?: Partial<LspTimes>;
  readonly parts?: Partial<ExtensionParts>;
  readonly shared?: boolean;
}

/** The extension with settings that are built from where the notes go. */
export function lspBench(
  config: (notesFile: string) => ClientConfig,
  { times, parts, shared = false }: BenchOptions = {},
): LspBench {
  const workspace = testWorkspace();
  const notesFile = join(workspace.path, '..', 'notes');
  const first = { config: config(notesFile), shared };
  const lsp = createLsp(testExtensionParts({ ...parts, first }), { ...shortTimes, ...times });
  onTestFinished(() => lsp.close());
  const place = { workspacePath: workspace.path };
  return {
    workspace,
    notesFile,
    async note(name, content, signal = new AbortController().signal) {
      const path = content === undefined ? join(workspace.path, name) : workspace.file(name, content);
      return (await lsp.noteAfterChange?.(path, place, signal)) ?? '';
    },
    call: async (tool, input, signal) =>
      callTool(toolNamed(await lsp.tools(place), tool), input, workspace.context(signal && { signal })),
    notes: () => readNotes(notesFile),
    apply: (next, many = false) => lsp.apply({ config: next, shared: many }),
    states: () => lsp.states(place).map(({ name, state }) => `${name} ${state}`),
    read: (name) => lsp.noticeRead?.(join(workspace.path, name), place),
    offered: async () => (await lsp.tools(place)).map(({ name }) => name),
    close: () => lsp.close(),
  };
}

/** An entry that starts the small server for files that end in `.x`. */
export function smallServer(
  mode: string,
  notesFile: string,
  more: Partial<LanguageServer> = {},
): LanguageServer {
  return { command: process.execPath, args: [program, mode, notesFile], filetypes: ['x'], ...more };
}

/** A bench with the small server alone. */
export function smallBench(
  mode: string,
  options: BenchOptions & { readonly entry?: Partial<LanguageServer> } = {},
): LspBench {
  return lspBench((notes) => ({ lsp: { small: smallServer(mode, notes, options.entry) } }), options);
}

/** Has the server started, as the reading of a file does. */
export async function ready(bench: LspBench): Promise<void> {
  bench.workspace.file('a.x', 'right\n');
  bench.read('a.x');
  await until(() => bench.states()[0] === 'small ready');
}

/** Asks for diagnostics until the answer has these words. */
export async function untilTold(bench: LspBench, input: object, words: string): Promise<void> {
  await expect
    .poll(async () => (await bench.call('diagnostics', input)).content, { timeout: 20_000 })
    .toContain(words);
}

export function readNotes(file: string): readonly Note[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map((line): Note => JSON.parse(line));
}

/** The processes of the small server that have run. */
export function pidsOf(bench: LspBench): readonly number[] {
  return bench.notes().flatMap(({ pid, child }) => pid ?? child ?? []);
}

/** One that has ended and waits for its parent to look is not at work any more. */
export function isAlive(pid: number): boolean {
  return processStat(pid)?.ended === false;
}

/** Waits until it holds. */
export async function until(holds: () => boolean, limitMs = 20_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!holds()) {
    if (performance.now() > end) throw new Error('it did not come to pass');
    await delay(20);
  }
}
