/** Tells of each model call as a span, in the words of https://opentelemetry.io/docs/specs/semconv/gen-ai/; never what was said. */
import type { OutboundCall, OutboundFetch } from '../../outbound/outbound.ts';
import { errorType, noTracing, type Span, type Tracing } from '../../tracing.ts';
import type { Model, ModelPart, ModelRequest, RelayedAnswer, RelayedPiece } from './model.ts';

/** The same model; each of its calls is a span. */
export function tracedModel(model: Model, providerType: string, tracing: Tracing): Model {
  if (tracing === noTracing) return model;
  const modelId = model.name.slice(model.name.indexOf(':') + 1);
  const called = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': vendors[providerType] ?? providerType,
    'gen_ai.request.model': modelId,
  };
  const { relay } = model;
  return {
    name: model.name,
    facts: () => model.facts(),
    stream(request, signal) {
      const attributes = { ...called, ...settingsOf(request) };
      const span = tracing.begin(`chat ${modelId}`, { kind: 'client', attributes });
      return told(span, () => model.stream(request, signal));
    },
    ...(relay && {
      relay(request, signal) {
        const span = tracing.begin(`chat ${modelId}`, { kind: 'client', attributes: called });
        return relayed(span, () => relay(request, signal));
      },
    }),
  };
}

/** A `fetch` whose requests say which trace they belong to. */
export function carryingTrace(fetch: OutboundFetch, tracing: Tracing): OutboundFetch {
  if (tracing === noTracing) return fetch;
  return (input, init) => {
    const headers = new Headers(init?.headers);
    for (const [name, value] of Object.entries(tracing.headers())) headers.set(name, value);
    return fetch(input, { ...init, headers });
  };
}

/** The same for what is passed on as it comes. */
export function callCarryingTrace(call: OutboundCall, tracing: Tracing): OutboundCall {
  if (tracing === noTracing) return call;
  return (url, init) => call(url, { ...init, headers: { ...init.headers, ...tracing.headers() } });
}

/** Where the conventions have a name of their own. */
const vendors: Readonly<Record<string, string>> = {
  gemini: 'gcp.gemini',
  vertexai: 'gcp.vertex_ai',
  azure: 'azure.ai.openai',
};

function settingsOf({ maxTokens, temperature, topP }: ModelRequest) {
  return {
    ...(maxTokens !== undefined && { 'gen_ai.request.max_tokens': maxTokens }),
    ...(temperature !== undefined && { 'gen_ai.request.temperature': temperature }),
    ...(topP !== undefined && { 'gen_ai.request.top_p': topP }),
  };
}

/** A streamed answer is as long as it is read. */
async function relayed(span: Span, ask: () => Promise<RelayedAnswer>): Promise<RelayedAnswer> {
  try {
    const answer = await span.within(ask);
    if ('pieces' in answer) return { pieces: toldPieces(span, answer.pieces) };
    span.end();
    return answer;
  } catch (error) {
    span.fail(errorType(error));
    span.end();
    throw error;
  }
}

async function* toldPieces(span: Span, pieces: AsyncIterable<RelayedPiece>): AsyncGenerator<RelayedPiece> {
  try {
    yield* pieces;
  } catch (error) {
    span.fail(errorType(error));
    throw error;
  } finally {
    span.end();
  }
}

/** A generator works where its reader stands: what it asks for between two pieces is part of the span all the same. */
async function* told(span: Span, begin: () => AsyncIterable<ModelPart>): AsyncGenerator<ModelPart> {
  const parts = span.within(() => begin()[Symbol.asyncIterator]());
  try {
    for (;;) {
      const { done, value } = await span.within(() => parts.next());
      if (done) return;
      if (value.type === 'finish')
        span.set({
          'gen_ai.response.finish_reasons': [value.stopReason],
          'gen_ai.usage.input_tokens': value.usage.input_tokens,
          'gen_ai.usage.output_tokens': value.usage.output_tokens,
        });
      yield value;
    }
  } catch (error) {
    span.fail(errorType(error));
    throw error;
  } finally {
    // Its reader may have left before the end.
    await span.within(async () => parts.return?.());
    span.end();
  }
}
