/** A runtime whose scripted model makes the tool calls that a test wants, to see what hooks do to them. */
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { PermissionReply } from '../../contract/api.ts';
import type { ClientConfig, Hook } from '../../contract/config.ts';
import { createLog } from '../../log.ts';
import { createMemoryTranscript, type MemoryTranscript } from '../memory/memory-transcript.ts';
import { literalProviders } from '../providers/literal-providers.ts';
import { createRuntime, type Query, type Runtime, type RuntimeOptions } from '../runtime.ts';
import { testQuery } from '../test-query.ts';
import type { NumberedEvent } from '../transcript.ts';

export interface ScriptedCall {
  readonly name: string;
  readonly arguments: Record<string, unknown>;
}

export interface Attempt {
  readonly hooks?: readonly Hook[];
  /** One tool call, or several in one answer of the model. */
  readonly call: ScriptedCall | readonly ScriptedCall[];
  readonly config?: ClientConfig;
  /** The settings as they stand each time they are asked for, in place of `hooks` and `config`. */
  readonly settings?: () => ClientConfig;
  readonly query?: Partial<Query>;
  readonly options?: RuntimeOptions;
  /** How the person answers each permission request. */
  readonly answer?: PermissionReply['decision'];
  /** What the person changes in the input of every call before allowing it. */
  readonly updatedInput?: PermissionReply['updated_input'];
  /** Is called once the run has begun. */
  readonly begun?: (at: { runtime: Runtime; transcript: MemoryTranscript; runId: string }) => Promise<void>;
}

/** A folder for one test. */
export interface HookFolder {
  readonly path: string;
  has(name: string): boolean;
  read(name: string): string;
  /** Writes a file; a program unless `mode` says otherwise. */
  write(name: string, text: string, mode?: number): void;
}

/** Starts the provider once for a file of tests. */
export function hookBench() {
  let upstream: Upstream;
  beforeAll(async () => {
    upstream = await startUpstream();
  });
  afterAll(() => upstream.stop());

  const configOf = ({ config, hooks }: Attempt): ClientConfig => ({
    providers: {
      scripted: {
        type: 'anthropic',
        base_url: `${upstream.url}/v1`,
        api_key: 'the-key-of-the-provider',
        models: [{ id: 'scripted-1', name: 'scripted-1' }],
      },
    },
    ...(hooks && { hooks: { pre_tool_use: [...hooks] } }),
    ...config,
  });

  /** Makes one run with these calls and reads it to its end. */
  const attempt = async (folder: HookFolder, wanted: Attempt) => {
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [wanted.call].flat(), chunk_size: 100_000 } },
      { reply: { text: 'Done.' } },
    ]);
    const transcript = createMemoryTranscript();
    const first = configOf(wanted);
    const providers = literalProviders(first);
    const { settings } = wanted;
    const runtime = await createRuntime(first, {
      ...(settings && { settings: async () => ({ config: settings(), providers }) }),
      transcript,
      workspacePath: async () => folder.path,
      log: createLog('silent'),
      ...wanted.options,
    });
    try {
      const { runId } = await runtime.start(queryOf(wanted));
      const begun = wanted.begun?.({ runtime, transcript, runId });
      const events: NumberedEvent[] = [];
      const signal = AbortSignal.timeout(50_000);
      for await (const event of runtime.follow(runId, { after: 0, follow: true, signal })) {
        events.push(event);
        answer(event, wanted, transcript, () => runtime.wake(runId));
      }
      await begun;
      return outcomeOf(events);
    } finally {
      await runtime.close();
    }
  };
  return { attempt };
}

/** A folder that goes with the test. */
export function hookFolder(): HookFolder {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'service-hooks-')));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const path = join(root, 'workspace');
  mkdirSync(path);
  return {
    path,
    has: (name) => existsSync(join(path, name)),
    read: (name) => readFileSync(join(path, name), 'utf8'),
    write: (name, text, mode = 0o755) => writeFileSync(join(path, name), text, { mode }),
  };
}

/** A folder as a server makes it for a workspace: where root runs it, an ordinary user's, who may pass to it. */
export function workspaceOfServer(): HookFolder {
  const folder = hookFolder();
  if (process.getuid?.() === 0) {
    chownSync(folder.path, 65_533, 65_533);
    chmodSync(join(folder.path, '..'), 0o711);
  }
  return folder;
}

/** A hook whose standard output is this value as JSON. */
export function saying(value: unknown): string {
  return `cat > /dev/null; printf '%s' '${JSON.stringify(value).replaceAll("'", "'\\''")}'`;
}

/** The processes that have this word on their command line. */
export function processesWith(word: string): readonly string[] {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && commandLine(name).includes(word));
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    // It has just ended.
    return '';
  }
}

function queryOf({ query }: Attempt): Query {
  return testQuery('Go.', query);
}

function answer(
  { data }: NumberedEvent,
  wanted: Attempt,
  transcript: MemoryTranscript,
  wake: () => void,
): void {
  if (!wanted.answer || !('type' in data) || data.type !== 'permission_requested') return;
  transcript.answerPermission(data.request.id, wanted.answer, wanted.updatedInput);
  wake();
}

function outcomeOf(events: readonly NumberedEvent[]) {
  const last = events.at(-1);
  if (last?.name !== 'done') throw new Error(`the run ended with ${JSON.stringify(last)}`);
  const runtimeEvents = events.flatMap(({ name, data }) =>
    name === 'runtime' && 'type' in data ? [data] : [],
  );
  return {
    done: last.data,
    /** What the model was told of the only call, or of the first. */
    result: last.data.tool_results[0],
    results: last.data.tool_results,
    types: runtimeEvents.map(({ type }) => type),
    notices: runtimeEvents.flatMap((event) => (event.type === 'notice_given' ? [event.message] : [])),
    started: runtimeEvents.flatMap((event) => (event.type === 'tool_started' ? [event.input] : [])),
    /** What hooks were told to have decided. */
    decided: runtimeEvents.flatMap((event) => (event.type === 'hook_decided' ? [event] : [])),
    /** How what people were asked ended. */
    resolved: runtimeEvents.flatMap((event) => (event.type === 'permission_resolved' ? [event] : [])),
    requests: runtimeEvents.flatMap((event) =>
      event.type === 'permission_requested' ? [event.request] : [],
    ),
  };
}
