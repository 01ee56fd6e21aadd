/** MCP servers for tests: the real ones as processes, and the extension with short times. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { McpServer } from '../../contract/config.ts';
import type { ExtensionParts } from '../extension.ts';
import { testExtensionParts } from '../test-extension.ts';
import type { Tool, ToolContext, ToolOutput } from '../tools/tool.ts';
import { connectionBounds, createMcp, type Mcp } from './mcp.ts';
import { type ServerTimes, serverTimes } from './server.ts';

const packages = join(import.meta.dirname, '../../../node_modules/@modelcontextprotocol');

/** The program of a public server. */
function publicServer(name: 'everything' | 'filesystem' | 'memory'): string {
  return join(packages, `server-${name}/dist/index.js`);
}

/** A public server over stdio. */
export function overStdio(name: 'everything' | 'filesystem' | 'memory', ...args: string[]): McpServer {
  return { command: process.execPath, args: [publicServer(name), ...args] };
}

/** One of the servers in `test-servers/`, written for what no good server does. */
export function hostile(...args: string[]): McpServer {
  return {
    command: process.execPath,
    args: [join(import.meta.dirname, 'test-servers/hostile.ts'), ...args],
  };
}

/** A workspace that goes with the test. */
export function testWorkspace(): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'service-mcp-')));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** The extension for these servers, alone. */
export function testMcp(
  servers: Readonly<Record<string, McpServer>>,
  more: Partial<ExtensionParts> = {},
  times: Partial<ServerTimes> = {},
  bounds: Partial<typeof connectionBounds> = {},
): Mcp {
  const first = { config: { mcp: { ...servers } }, shared: false };
  const mcp = createMcp(
    testExtensionParts({ first, ...more }),
    { ...serverTimes, ...times },
    { ...connectionBounds, ...bounds },
  );
  onTestFinished(() => mcp.close());
  return mcp;
}

/** What a call is given, with what it said on the way. */
export function testContext(workspacePath: string, more: Partial<ToolContext> = {}) {
  const said: string[] = [];
  const context: ToolContext = {
    workspacePath,
    sessionId: 'ses_1',
    runId: 'run_1',
    toolCallId: 'call_1',
    hidden: async () => null,
    signal: new AbortController().signal,
    progress: (text) => said.push(text),
    ask: async () => ({ status: 'declined' }),
    todos: { get: () => [], set: async () => undefined },
    readableFolders: [],
    keepReadable: () => undefined,
    files: { recall: () => undefined, remember: () => undefined, forget: () => undefined, paths: () => [] },
    recordChange: async () => undefined,
    noticeRead: () => undefined,
    noteAfterChange: async () => '',
    ...more,
  };
  return { context, said };
}

/** Calls a tool as the runtime does once it is allowed. */
export async function call(
  tools: readonly Tool[],
  name: string,
  input: unknown,
  context: ToolContext,
): Promise<ToolOutput> {
  const tool = tools.find((one) => one.name === name);
  if (!tool) throw new Error(`no tool ${name} among ${tools.map((one) => one.name).join(', ')}`);
  return await (await tool.prepare(input, context)).run();
}

/** Where it listens in fact: a public server says that it does also where its port was taken, and then ends. */
const tellingPort = `
  import { subscribe } from 'node:diagnostics_channel';
  const told = ({ server }) => console.error('Bound to ' + server.address().port + '.');
  subscribe('tracing:net.server.listen:asyncEnd', told);
`;

/** A public server that listens, and its address; without a port, on one that the system gives it. */
export async function listening(transport: 'sse' | 'streamableHttp', port = 0, attempts = 3) {
  const telling = `--import=data:text/javascript,${encodeURIComponent(tellingPort)}`;
  const child = spawn(process.execPath, [telling, publicServer('everything'), transport], {
    env: { PATH: process.env.PATH, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  onTestFinished(() => stop(child));
  try {
    const [, bound] = await said(child, /Bound to (\d+)\./);
    const path = transport === 'sse' ? 'sse' : 'mcp';
    return { url: `http://127.0.0.1:${bound}/${path}`, port: Number(bound), stop: () => stop(child) };
  } catch (error) {
    // A connection of another program may have had the port for a moment.
    if (attempts === 1) throw error;
    return await listening(transport, port, attempts - 1);
  }
}

/** Reads on afterwards: a server whose complaints nobody takes any more ends. */
async function said(child: ChildProcess, wanted: RegExp): Promise<RegExpExecArray> {
  let text = '';
  const heard = Promise.withResolvers<RegExpExecArray>();
  child.stderr?.on('data', (chunk: Buffer) => {
    text += chunk.toString();
    const found = wanted.exec(text);
    if (found) heard.resolve(found);
  });
  child.once('exit', () => heard.reject(new Error(`the server did not start: ${text}`)));
  return await heard.promise;
}

/** Ends a process that a test started. */
async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}
