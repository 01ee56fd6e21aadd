// A workspace in a temporary folder and a way to call tools in it, for the tests of the tools.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { createOutbound } from '../../outbound/outbound.ts';
import type { SandboxUnavailable } from '../processes/sandbox.ts';
import { createFileMemory } from './file-memory.ts';
import { createJobs } from './jobs.ts';
import type { Todo, Tool, ToolContext, ToolOutput } from './tool.ts';
import type { BuiltInToolsOptions } from './tools.ts';

/** A workspace with a folder of secrets beside it. */
export interface TestWorkspace {
  readonly path: string;
  /** A file beside the workspace that no tool may show. */
  readonly secretFile: string;
  /** Writes a file; `ageSeconds` sets how long ago it was changed. */
  file(name: string, content: string | Uint8Array, ageSeconds?: number): string;
  context(changes?: Partial<ToolContext>): ToolContext;
  readonly todos: Todo[];
  readonly shownProgress: string[];
}

export const SECRET = 'the-secret-of-another-tenant';
const NO_SANDBOX: SandboxUnavailable = { unavailable: 'not part of this test' };
export const TOOL_OPTIONS: BuiltInToolsOptions = {
  sandbox: NO_SANDBOX,
  jobs: createJobs(),
  outbound: createOutbound({ shared: () => false }),
  findSearchEngine: async () => null,
  ls: { max_depth: 0, max_items: 1000 },
  grep: { timeoutMs: 5000 },
  disabled: [],
  allowNetwork: false,
  requireSandbox: false,
};

/** Makes a workspace that is removed when the test ends. */
export function testWorkspace(): TestWorkspace {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'service-tools-')));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const path = join(root, 'workspace');
  const secretFile = join(root, 'outside', 'secret.txt');
  mkdirSync(path);
  write(secretFile, SECRET);
  const todos: Todo[] = [];
  const shownProgress: string[] = [];
  const file = (name: string, content: string | Uint8Array, ageSeconds = 0) => {
    write(join(path, name), content);
    const time = Date.now() / 1000 - ageSeconds;
    utimesSync(join(path, name), time, time);
    return join(path, name);
  };
  const files = createFileMemory();
  const context = (changes: Partial<ToolContext> = {}): ToolContext => ({
    workspacePath: path,
    sessionId: 'session_1',
    runId: 'run_1',
    toolCallId: 'call_1',
    readableFolders: [],
    keepReadable: () => undefined,
    hidden: async () => null,
    signal: new AbortController().signal,
    progress: (text) => shownProgress.push(text),
    ask: async () => ({ status: 'declined' }),
    todos: { get: () => todos, set: async (next) => void todos.splice(0, todos.length, ...next) },
    files,
    recordChange: async () => undefined,
    noticeRead: () => undefined,
    noteAfterChange: async () => '',
    ...changes,
  });
  return { path, secretFile, file, context, todos, shownProgress };
}

/** Makes the folder that holds the workspace a repository, with these ignore rules at its root. */
export function repositoryAbove(workspace: TestWorkspace, rules: string): void {
  workspace.file('../.git/HEAD', 'ref: refs/heads/main\n');
  workspace.file('../.gitignore', rules);
}

/** Puts a file where its folder can be listed, and its own path is too long for anybody, root too, to ask after it. */
export function unreachableFile(folder: string, name: string, content: string): void {
  const names: string[] = [];
  const longest = 4096 - name.length; // what a path may have, with its end
  for (let length = folder.length; longest - length > 1; length += (names.at(-1)?.length ?? 0) + 1)
    names.push('d'.repeat(Math.min(200, longest - length - 1)));
  const script = 'for folder do mkdir -p "$folder" && cd "$folder" || exit 1; done; cat > "$0"';
  execFileSync('sh', ['-c', script, name, ...names], { cwd: folder, input: content });
}

/** The tool of that name. */
export function toolNamed(tools: readonly Tool[], name: string): Tool {
  const tool = tools.find((candidate) => candidate.name === name);
  if (!tool) throw new Error(`There is no tool ${name}`);
  return tool;
}

/** Prepares and runs a call as if every permission was given. */
export async function callTool(tool: Tool, input: unknown, context: ToolContext): Promise<ToolOutput> {
  return (await tool.prepare(input, context)).run();
}

function write(path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}
