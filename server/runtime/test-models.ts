/** A runtime by itself with scripted models behind it, for tests of what is done about models. */
import { onTestFinished } from 'vitest';
import type { Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import type { RuntimeEvent } from '../contract/api.ts';
import type { ClientConfig, Provider, ProviderModel } from '../contract/config.ts';
import { createLog } from '../log.ts';
import { createMemoryTranscript, type MemoryTranscript } from './memory/memory-transcript.ts';
import { placeOf, type TestedType } from './providers/test-providers.ts';
import { createRuntime, type Query, type Runtime, type RuntimeOptions } from './runtime.ts';
import { testFolder } from './test-conversation.ts';
import { testQuery } from './test-query.ts';
import type { NumberedEvent } from './transcript.ts';

/** The dialects that models are asked in. */
export const dialects = ['openai-compat', 'anthropic'] as const;

export interface ModelSetup {
  readonly type?: TestedType;
  /** Of the models `big`, `other` and `tiny`, beside their ids. */
  readonly models?: Readonly<Record<string, Partial<ProviderModel>>>;
  readonly provider?: Partial<Provider>;
  readonly large?: Partial<NonNullable<NonNullable<ClientConfig['models']>['large']>>;
  readonly options?: ClientConfig['options'];
  readonly runtime?: Partial<RuntimeOptions>;
}

export interface ModelRuntime {
  readonly runtime: Runtime;
  readonly transcript: MemoryTranscript;
  /** Asks in the one session, and reads the run to its end. */
  ask(text: string, more?: Partial<Query>): Promise<readonly NumberedEvent[]>;
}

/** `house:big` is the large model. Pauses are short. */
export async function modelRuntime(upstream: Upstream, setup: ModelSetup = {}): Promise<ModelRuntime> {
  const { path } = await testFolder();
  const models = ['big', 'other', 'tiny'].map((id) => ({ id, ...setup.models?.[id] }));
  const type = setup.type ?? dialects[0];
  const house = { type, ...placeOf(type, upstream.url), models };
  const transcript = createMemoryTranscript();
  const runtime = await createRuntime(
    {
      models: { large: { provider: 'house', model: 'big', ...setup.large } },
      providers: { house: { ...house, ...setup.provider } },
      ...(setup.options && { options: setup.options }),
    },
    {
      transcript,
      log: createLog('silent'),
      workspacePath: async () => path,
      retryPauseMs: 4,
      ...setup.runtime,
    },
  );
  onTestFinished(() => runtime.close());
  return {
    runtime,
    transcript,
    async ask(text, more) {
      const { runId } = await runtime.start(testQuery(text, more));
      return eventsOf(runtime, runId);
    },
  };
}

/** Reads a run to its end. */
export async function eventsOf(runtime: Runtime, runId: string): Promise<readonly NumberedEvent[]> {
  const events: NumberedEvent[] = [];
  for await (const event of runtime.follow(runId, {
    after: 0,
    follow: true,
    signal: AbortSignal.timeout(50_000),
  }))
    events.push(event);
  return events;
}

/** The runtime events of one type. */
export function told<Type extends RuntimeEvent['type']>(
  events: readonly NumberedEvent[],
  type: Type,
): Extract<RuntimeEvent, { type: Type }>[] {
  return events.flatMap(({ name, data }) =>
    name === 'runtime' && data.type === type ? [data as Extract<RuntimeEvent, { type: Type }>] : [],
  ); // the type was compared
}

export function doneOf(events: readonly NumberedEvent[]) {
  const last = events.at(-1);
  if (last?.name !== 'done') throw new Error(`the run ended with ${JSON.stringify(last)}`);
  return last.data;
}

export function errorOf(events: readonly NumberedEvent[]): string {
  const last = events.at(-1);
  if (last?.name !== 'error') throw new Error(`the run ended with ${JSON.stringify(last)}`);
  return last.data.error;
}
