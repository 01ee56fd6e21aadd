/** What a provider's failure means: in words that anybody may read, and what may help. */
import { ModelFailure, type Remedy } from '../models/model.ts';

/** The failure behind an error of a provider's client. Its own words stay in the log: they may quote the request. */
export function failureOf(error: unknown, secrets: readonly string[]): ModelFailure {
  if (error instanceof ModelFailure) return error;
  const { code, remedy, message } = meaningOf(error);
  const retryAfterMs = retryAfterOf(error);
  return new ModelFailure(code, remedy, withTime(message, retryAfterMs), {
    cause: withoutSecrets(error, secrets),
    retryAfterMs,
  });
}

/** An answer that ended in an orderly way, but before it was complete. */
export function cutShort(): ModelFailure {
  return new ModelFailure(failed.code, failed.remedy, failed.message);
}

/** An answer that does not end. */
export function tooLong(): ModelFailure {
  return new ModelFailure(
    failed.code,
    'replace',
    'The model provider wrote more than any answer holds; choose another model.',
  );
}

/** A provider that said nothing for too long: asked again it would be silent for as long. */
export function timedOut(silenceMs: number, cause: unknown): ModelFailure {
  const seconds = Math.round(silenceMs / 1000);
  return new ModelFailure(
    'provider_timeout',
    'replace',
    `The model provider was silent for ${seconds} s; try again later, or choose another model.`,
    { cause },
  );
}

/** Errors before the stream are of the client's class; those within it are plain objects with the same member. */
export function statusOf(error: unknown): number | undefined {
  const status = memberOf(error, 'statusCode');
  return typeof status === 'number' ? status : undefined;
}

/** Whether the provider misses the thoughts before a tool call, and says by which field it wants them. */
export function missesThoughts(error: unknown): boolean {
  if (!(error instanceof ModelFailure) || error.code !== 'provider_request_refused') return false;
  return /reasoning_content/.test(wordsOf(error.cause));
}

/** Whether the provider refuses a prompt right behind what a tool gave, as Mistral does, and servers that hold its models. */
export function wantsAnswerBetween(error: unknown): boolean {
  if (!(error instanceof ModelFailure) || error.code !== 'provider_request_refused') return false;
  return /after role .?tool|invalid_request_message_order/i.test(wordsOf(error.cause));
}

/** Whether the provider refuses the id of a tool call, as Mistral and the templates of its models do where another gave it. */
export function wantsNineCharacters(error: unknown): boolean {
  if (!(error instanceof ModelFailure) || error.code !== 'provider_request_refused') return false;
  return /tool call ids?\b.{1,400}\blength (of )?9\b/is.test(wordsOf(error.cause));
}

/** Whether the provider refuses a thought that it has signed itself: it belongs to a conversation that has changed since. */
export function refusesThoughts(error: unknown): boolean {
  if (!(error instanceof ModelFailure) || error.code !== 'provider_request_refused') return false;
  if (bindsThoughts(error)) return true;
  return /signature.{1,40}thinking|thinking.{1,200}cannot be modified/i.test(wordsOf(error.cause));
}

/** Whether it does so for the model: the thoughts of any other conversation that has changed would be refused, too. */
export function bindsThoughts(error: unknown): boolean {
  return error instanceof ModelFailure && /bound to a different conversation/i.test(wordsOf(error.cause));
}

/** Providers quote the credential that they refuse, and their words go to the log: those of the errors behind one, too. */
export function withoutSecrets(error: unknown, secrets: readonly string[]): unknown {
  const said = allSaid(error);
  if (!secrets.some((secret) => said.includes(secret)) || error instanceof ModelFailure) return error;
  const message = secrets.reduce((text, secret) => text.replaceAll(secret, '[redacted]'), said);
  return Object.assign(new Error(message), { statusCode: statusOf(error) });
}

/** As the log joins the messages of an error and of those behind it. */
function allSaid(error: unknown): string {
  const behind = error instanceof Error ? error.cause : undefined;
  return behind instanceof Error ? `${messageOf(error)}: ${allSaid(behind)}` : messageOf(error);
}

/** Where the provider says when, "later" is no answer. */
function withTime(message: string, retryAfterMs: number | null): string {
  const seconds = Math.ceil((retryAfterMs ?? 0) / 1000);
  return seconds > 0 ? message.replace('try again later', `try again in ${seconds} s`) : message;
}

interface Meaning {
  readonly code: ModelFailure['code'];
  readonly remedy: Remedy;
  readonly message: string;
}

function meaningOf(error: unknown): Meaning {
  if (memberOf(error, 'name') === 'AI_UnsupportedFunctionalityError') return notTaken;
  const status = statusOf(error);
  const words = wordsOf(error);
  if (wantsMoney(error, status, words))
    return refused('replace', 'The model provider wants to be paid; check the account behind its API key.');
  if (status === 401 || status === 403 || /api.?key not valid|API_KEY_INVALID/i.test(words))
    return refused('replace', 'The model provider refused our credential; check its API key.');
  if (status === 404)
    return refused('replace', 'The model provider does not know the model; check its name.');
  if (status === 429 || status === 529) return overloaded;
  if (status === undefined || status >= 500 || status === 408 || status === 409 || status < 400)
    return ownFault(status, words);
  return refusal(status, words);
}

/** Elsewhere the bare word may be quoted from the request, which may well be about bills. */
function wantsMoney(error: unknown, status: number | undefined, words: string): boolean {
  if (status === 402) return true;
  const isSaid = status === 403 || status === 429 ? /insufficient_quota|billing/i : unpaid;
  // Google speaks of the quota where it means the rate too, but then says when to come back.
  return isSaid.test(words) && retryAfterOf(error) === null;
}

/** OpenAI's codes, and what Anthropic says with the status of a wrong request. */
const unpaid = /insufficient_quota|credit balance is too low|billing_(error|hard_limit|not_active)/i;

/** What the provider could not do, and may do next time. */
function ownFault(status: number | undefined, words: string): Meaning {
  if (status === 408 || status === 504) return tookTooLong;
  return status === 503 && /overloaded|high demand/i.test(words) ? overloaded : failed;
}

/** What the provider would not do: vendors say why in words only, each in its own. */
function refusal(status: number, words: string): Meaning {
  if (status === 413 || isTooLong(words))
    return {
      code: 'provider_prompt_too_long',
      remedy: 'shorten',
      message: `The model provider refused the conversation: ${lengthsOf(words)}`,
    };
  if (/content.?(filter|policy|management)|safety (system|polic)|responsible.?ai/i.test(words))
    return reworded('The model provider refused the content of what was asked.');
  return reworded(
    `The model provider refused the request with status ${status}; check the model's name and settings, and what was asked.`,
  );
}

const overloaded: Meaning = {
  code: 'provider_rate_limited',
  remedy: 'retry',
  message: 'The model provider is overloaded or limits the rate; try again later.',
};

const tookTooLong: Meaning = {
  code: 'provider_timeout',
  remedy: 'retry',
  message: 'The model provider took too long to answer; try again later, or choose another model.',
};

/** Found by the vendor's client before anything was sent. */
const notTaken = reworded(
  'The model provider takes no files of such a kind; leave them out, or choose another model.',
);

/** Within a stream there is no status: by "try again later" some clients know that they may. */
const failed: Meaning = {
  code: 'provider_failed',
  remedy: 'retry',
  message: 'The model provider failed or cut its answer; try again later, or choose another model.',
};

function refused(remedy: Remedy, message: string): Meaning {
  return { code: 'provider_refused', remedy, message };
}

function reworded(message: string): Meaning {
  return { code: 'provider_request_refused', remedy: 'reword', message };
}

/** How long the conversation is, and may be, where the vendor says so: in the words of one of them, which programs read. */
function lengthsOf(words: string): string {
  const said = lengths.map((pattern) => pattern.exec(words)?.groups).find((groups) => groups !== undefined);
  if (!said) return 'prompt is too long for the model';
  const { prompt, answer, window } = said;
  if (answer !== undefined && Number(prompt) <= Number(window))
    return `input length and \`max_tokens\` exceed context limit: ${prompt} + ${answer} > ${window}, decrease input length or \`max_tokens\` and try again`;
  return `prompt is too long: ${prompt} tokens > ${window} maximum`;
}

/**
 * As Anthropic, OpenAI with its like, Google, llama.cpp, xAI, Kimi, Copilot and vLLM say it; the more exact ones come first.
 * The digits have a bound: of many without end each would be tried as the first.
 */
const lengths = [
  /(?<prompt>\d{1,12}) tokens > (?<window>\d{1,12})/,
  /(?<prompt>\d{1,12}) \+ (?<answer>\d{1,12}) > (?<window>\d{1,12})/,
  /context length is (?<window>\d{1,12})\D+\d{1,12} tokens \((?<prompt>\d{1,12}) in the \w+\D+(?<answer>\d{1,12}) in the completion/,
  /context length is (?<window>\d{1,12})\D+(?<prompt>\d{1,12}) (?:input )?tokens/,
  /token count \((?<prompt>\d{1,12})\) exceeds the maximum number of tokens allowed \((?<window>\d{1,12})\)/,
  /"n_prompt_tokens": ?(?<prompt>\d{1,12}), ?"n_ctx": ?(?<window>\d{1,12})/,
  /request \((?<prompt>\d{1,12}) tokens\) exceeds the available context size \((?<window>\d{1,12}) tokens\)/,
  /maximum prompt length is (?<window>\d{1,12}) but the request contains (?<prompt>\d{1,12})/,
  /model token limit: (?<window>\d{1,12}) \(requested: (?<prompt>\d{1,12})\)/,
  /prompt token count of (?<prompt>\d{1,12}) exceeds the limit of (?<window>\d{1,12})/,
  /prompt \(length (?<prompt>\d{1,12})\) is longer than the maximum model length of (?<window>\d{1,12})/,
];

function isTooLong(words: string): boolean {
  return tooLongWords.some((pattern) => pattern.test(words));
}

/** What several vendors say comes first, then the words of single ones: llama.cpp, xAI, Kimi, Copilot, vLLM, Qwen and GLM. */
const tooLongWords = [
  /context.?(length|window)|maximum context|prompt is too long|too many (input )?tokens|input is too long|exceeds? the (maximum|model)/i,
  /available context size|exceed_context_size/i,
  /maximum prompt length is \d/i,
  /exceeded model token limit/i,
  /prompt token count of \d{1,12} exceeds/i,
  /longer than the maximum model length/i,
  /range of input length should be/i,
  /prompt exceeds max length/i,
];

function wordsOf(error: unknown): string {
  return `${messageOf(error).slice(0, readLimit)} ${bodyOf(error).slice(0, readLimit)}`;
}

/** Of an error within a stream the client keeps what it read of it. */
function bodyOf(error: unknown): string {
  const body = memberOf(error, 'responseBody');
  if (typeof body === 'string') return body;
  const data = memberOf(error, 'data');
  return data === undefined ? '' : JSON.stringify(data);
}

/** As much of an answer as the words of an error may stand in. */
const readLimit = 4000;

function messageOf(error: unknown): string {
  const message = memberOf(error, 'message');
  return message === undefined ? String(error) : String(message);
}

/** How long the provider wants not to be asked; vendors also say it in milliseconds, in a header of their own. */
function retryAfterOf(error: unknown): number | null {
  const headers = memberOf(error, 'responseHeaders');
  const exact = Number(memberOf(headers, 'retry-after-ms') ?? Number.NaN);
  if (Number.isFinite(exact) && exact >= 0) return exact;
  const said = memberOf(headers, 'retry-after');
  if (typeof said !== 'string') return retryDelayOf(error);
  const ms = /^\d+(\.\d+)?$/.test(said.trim()) ? Number(said) * 1000 : Date.parse(said) - Date.now();
  return Number.isFinite(ms) ? Math.max(ms, 0) : null;
}

/** Google says it in the body. */
function retryDelayOf(error: unknown): number | null {
  const seconds = /"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(bodyOf(error).slice(0, readLimit))?.[1];
  return seconds === undefined ? null : Number(seconds) * 1000;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
