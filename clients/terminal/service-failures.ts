/** What a person is told when the service refuses a call, or cannot be reached. */
import { BrokenStreamError, ConnectionError, ServiceError } from '@service/client/errors';
import { CommandFailure, exitCodes } from './failures.ts';

/** What to do about the failures that a person can mend, by their code. */
const remedies: Readonly<Record<string, string>> = {
  no_provider_configured:
    'Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or name a provider in service.json; service doctor looks at what is there.',
  model_not_found: 'service models lists the models that can be asked here.',
  provider_refused: 'Is the key of the provider right? service providers says where it comes from.',
  permission_mode_refused: 'Leave out --yolo: on that server it is for its operator.',
  credential_missing: 'Log in with service login.',
  // The key is that of one command: the next one has another, and would begin a second run.
  idempotency_key_in_use:
    'The server may be at work at it: service sessions list shows its session. Asked again, it begins anew.',
};

/** The failure to end the command with; what is none of the service's own comes back as it is. */
export function failureOf(error: unknown): unknown {
  if (error instanceof ServiceError) return failureOfRefusal(error);
  if (error instanceof BrokenStreamError && isForGood(error.cause)) return failureOf(error.cause);
  if (error instanceof BrokenStreamError && error.cause instanceof ConnectionError)
    return new CommandFailure(`${error.message}\n${error.cause.message}`, exitCodes.unreachable);
  if (error instanceof ConnectionError || error instanceof BrokenStreamError)
    return new CommandFailure(error.message, exitCodes.unreachable);
  return error;
}

/** The failure of a run, from the words of its last event: `<code>: <sentence>`. */
export function failureOfRun(words: string): CommandFailure {
  const [, code = '', sentence = words] = /^([a-z_]+): (.*)$/s.exec(words) ?? [];
  return new CommandFailure(withRemedy(code, sentence));
}

/** What ended a stream and is there at the next call too: what to do about it is the same. */
function isForGood(cause: unknown): boolean {
  const isRefusal = cause instanceof ServiceError && cause.status < 500 && cause.status !== 429;
  return isRefusal || cause instanceof CommandFailure;
}

function failureOfRefusal({ status, code, detail, requestId }: ServiceError): CommandFailure {
  const isUnreachable = status === 401 || isOfOther.has(code);
  // What is not set (501) is no fault, and the log has nothing about it.
  const isFault = status >= 500 && status !== 501;
  const reference = isFault && requestId ? ` Request ${requestId} has more in the log.` : '';
  const sentence = `${withRemedy(code, detail)}${reference}`;
  return new CommandFailure(sentence, isUnreachable ? exitCodes.unreachable : exitCodes.failed);
}

/** What answered is not the server, or the server could not reach one that it was to try. */
const isOfOther = new Set(['unrecognized_answer', 'mcp_server_failed']);

function withRemedy(code: string, sentence: string): string {
  const remedy = isRefusedCredential.has(code) ? anotherCredential() : remedies[code];
  return [`${sentence}${code ? ` (${code})` : ''}`, ...(remedy ? [remedy] : [])].join('\n');
}

const isRefusedCredential = new Set(['credential_expired', 'credential_invalid']);

function anotherCredential(): string {
  return process.env.SERVICE_API_KEY
    ? 'Log in again with service login; a key that SERVICE_API_KEY has for that server goes before a login.'
    : 'Log in again with service login.';
}
