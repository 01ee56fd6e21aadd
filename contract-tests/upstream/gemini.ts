// Google's generateContent, as its Gemini API and Vertex AI speak it: how an answer looks on the wire, plain and streamed.
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import {
  type Answer,
  bearer,
  type Call,
  type Dialect,
  fragments,
  newId,
  type Place,
  Refusal,
  type StopReason,
} from './dialect.ts';
import { type GeminiRequest, readGeminiRequest } from './gemini-request.ts';
import { picture, samples } from './media-files.ts';
import { type DialectName, inputTokens, type Prompt } from './prompt.ts';

export const gemini: Dialect = {
  ...google('gemini'),
  apiKey: (headers) => googleKey(headers) ?? bearer(headers),
  noKey: () =>
    new Refusal(
      403,
      "Method doesn't allow unregistered callers. Please use API Key or other form of identity.",
    ),
};

/** The same calls below a project, with the access tokens of Google Cloud. */
export const vertexGemini: Dialect = {
  ...google('vertex_gemini'),
  modelList: (ids, next) => ({
    publisherModels: ids.map((id) => ({
      name: `publishers/google/models/${id}`,
      versionId: '001',
      openSourceCategory: 'PROPRIETARY',
      launchStage: 'GA',
    })),
    ...(next !== null && { nextPageToken: next }),
  }),
  apiKey: (headers) => bearer(headers) ?? googleKey(headers),
  noKey: () =>
    new Refusal(401, 'Request is missing required authentication credential. Expected OAuth 2 access token.'),
};

function google(name: DialectName): Omit<Dialect, 'apiKey' | 'noKey'> {
  return {
    name,
    read: (body, _headers, place) => call(readGeminiRequest(body, name, placed(place)), placed(place)),
    count: (body, _headers, place) => ({
      totalTokens: inputTokens(readGeminiRequest(body, name, placed(place)).prompt),
    }),
    headers: () => ({ server: 'scaffolding on HTTPServer2', vary: 'Origin' }),
    newRequestId: () => newId('', 22),
    errorBody,
    errorFrame: (refusal) => frame(errorBody(refusal)),
    retryInBody: true,
    modelList: (ids, next) => ({
      models: ids.map(model),
      ...(next !== null && { nextPageToken: next }),
    }),
    model,
  };
}

/** Every path of this vendor that asks a model names it. */
function placed(place: Place | null): Place {
  if (place === null) throw new Refusal(404, 'The path names no model.');
  return place;
}

function googleKey(headers: IncomingHttpHeaders): string | undefined {
  const key = headers['x-goog-api-key'];
  return typeof key === 'string' && key !== '' ? key : undefined;
}

const statusNames: Record<number, string> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ABORTED',
  429: 'RESOURCE_EXHAUSTED',
  499: 'CANCELLED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
};

/** Reasons and times to wait stand in `details`, each of a type of its own. */
function errorBody({ status, message, type, code, retryAfter }: Refusal): unknown {
  const name = type ?? statusNames[status] ?? (status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL');
  const kind = (it: string) => ({ '@type': `type.googleapis.com/google.rpc.${it}` });
  const details = [
    ...(code ? [{ ...kind('ErrorInfo'), reason: code, domain: 'googleapis.com' }] : []),
    ...(retryAfter === undefined ? [] : [{ ...kind('RetryInfo'), retryDelay: `${retryAfter}s` }]),
  ];
  return { error: { code: status, message, status: name, ...(details.length > 0 && { details }) } };
}

function model(id: string): unknown {
  return {
    name: `models/${id}`,
    version: '001',
    displayName: id,
    inputTokenLimit: 1_048_576,
    outputTokenLimit: 65_536,
    supportedGenerationMethods: ['generateContent', 'countTokens'],
  };
}

function call({ prompt, includeThoughts }: GeminiRequest, place: Place): Call {
  const head = () => ({ modelVersion: place.model, responseId: newId('', 23) });
  return {
    prompt,
    whole: (answer) => ({
      ...response(mediaParts(answer, prompt.task) ?? partsOf(answer, includeThoughts), answer, true),
      ...head(),
    }),
    frames: (answer) => frames(answer, includeThoughts, head()),
  };
}

type Part = Record<string, unknown>;

/** A finish without content says nothing more; of a prompt that is refused there is no candidate at all. */
function response(parts: readonly Part[], answer: Answer, last: boolean): Record<string, unknown> {
  const counted = { usageMetadata: usage(answer) };
  if (last && isBlocked(answer)) return { promptFeedback: { blockReason: 'PROHIBITED_CONTENT' }, ...counted };
  const content = { parts, role: 'model' };
  return {
    candidates: [{ content, ...(last && { finishReason: finishReason(answer) }), index: 0 }],
    ...counted,
  };
}

function isBlocked({ stopReason, text }: Answer): boolean {
  return stopReason === 'refusal' && text === '';
}

const finishReasons: Record<StopReason, string> = {
  end_turn: 'STOP',
  stop_sequence: 'STOP',
  tool_use: 'STOP',
  max_tokens: 'MAX_TOKENS',
  refusal: 'SAFETY',
};

/** Arguments that are no object do not leave this vendor's house: it says that the call failed. */
function finishReason(answer: Answer): string {
  const broken = answer.toolCalls.some((it) => argumentsOf(it.arguments) === undefined);
  return answer.finishReason ?? (broken ? 'MALFORMED_FUNCTION_CALL' : finishReasons[answer.stopReason]);
}

/** This vendor counts thoughts apart from what it says. */
function usage({ usage: counted }: Answer): unknown {
  const { input, cached, output, reasoning } = counted;
  return {
    promptTokenCount: input,
    candidatesTokenCount: output - reasoning,
    totalTokenCount: input + output,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: input }],
    ...(cached > 0 && { cachedContentTokenCount: cached }),
    ...(reasoning > 0 && { thoughtsTokenCount: reasoning }),
  };
}

function partsOf(answer: Answer, includeThoughts: boolean): Part[] {
  return [
    ...(answer.reasoning && includeThoughts ? [{ text: answer.reasoning, thought: true }] : []),
    ...(answer.text ? [{ text: answer.text }] : []),
    ...callParts(answer),
  ];
}

/** What is made is a part of the answer like any other; of what was heard there is more than its words. */
function mediaParts(answer: Answer, task: Prompt['task']): Part[] | null {
  if (task === undefined) return null;
  if (task === 'transcription') return [{ audioTranscription: { text: answer.text, languageCode: 'en' } }];
  if (answer.stopReason === 'refusal') return [];
  const image = { mimeType: 'image/png', bytes: picture };
  const sound = { mimeType: 'audio/L16;codec=pcm;rate=24000', bytes: samples };
  const { mimeType, bytes } = task === 'image' ? image : sound;
  return [{ inlineData: { mimeType, data: (answer.file ?? bytes).toString('base64') } }];
}

/** The first of calls in parallel carries the signature over the thought that led to all of them. */
function callParts(answer: Answer): Part[] {
  return answer.toolCalls.flatMap(({ name, arguments: json }, at) => {
    const args = argumentsOf(json);
    if (args === undefined) return [];
    const signed = at === 0 ? { thoughtSignature: signature(answer) } : {};
    return [{ functionCall: { name, args, id: newId('call_', 12) }, ...signed }];
  });
}

function signature(answer: Answer): string {
  return createHash('sha512').update(`signed ${answer.reasoning}`).digest('base64');
}

function argumentsOf(json: string): object | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** This vendor ends its lines as HTTP does. */
function frame(data: unknown): string {
  return `data: ${JSON.stringify(data)}\r\n\r\n`;
}

function* frames(answer: Answer, includeThoughts: boolean, head: object): Generator<string> {
  const chunk = (parts: readonly Part[], last = false) =>
    frame({ ...response(parts, answer, last), ...head });
  const pieces = (text: string) => fragments(text, answer.chunkSize);
  if (includeThoughts) for (const text of pieces(answer.reasoning)) yield chunk([{ text, thought: true }]);
  for (const text of pieces(answer.text)) yield chunk([{ text }]);
  for (const part of callParts(answer)) yield chunk([part]);
  yield chunk([{ text: '' }], true);
}
