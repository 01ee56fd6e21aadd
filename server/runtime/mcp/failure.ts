/** Why an MCP server cannot be used, in words for people and models. */
import {
  InsufficientScopeError,
  ProtocolError,
  ProtocolErrorCode,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  SseError,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { OutboundError, outboundSentence } from '../../outbound/outbound.ts';
import { isBrokenOff } from './http-transport.ts';

/** The message holds no secret: it may be shown to whoever uses the server. */
export class McpFailure extends Error {
  override readonly name = 'McpFailure';
}

/** A server that wants a person to log in. */
export class LoginNeeded extends McpFailure {}

/** Whether it has done what it was asked is not known. */
export class OutcomeUnknown extends McpFailure {}

const longestReason = 500;

/** The reason as one line; what the server says itself is cut, and harmless in a terminal. */
export function reasonOf(error: unknown): string {
  if (error instanceof McpFailure) return error.message;
  if (error instanceof UnauthorizedError) return 'it asks for a login (401)';
  if (error instanceof InsufficientScopeError) return scopeFault(error);
  if (error instanceof SdkHttpError) return `it answered with the HTTP status ${error.data.status}`;
  if (isBrokenOff(error)) return 'its answer broke off';
  if (error instanceof ProtocolError) return `it said: ${oneLine(error.message)} (${error.code})`;
  if (error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout)
    return 'it did not answer in time';
  if (error instanceof SdkError && error.code === SdkErrorCode.InvalidResult)
    return 'it answered what breaks the rules of the protocol';
  if (error instanceof SdkError) return `the connection failed (${error.code.toLowerCase()})`;
  if (!(error instanceof Error)) return 'the connection failed';
  if (error.name === 'LoginUnreadable') return error.message;
  if (error instanceof OutboundError || error instanceof TypeError || error instanceof SseError)
    return asReason(outboundSentence(error));
  // The messages of spawn hold arguments, which may hold secrets.
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  return startFaults[code] ?? `the connection failed (${code})`;
}

/** For the log, in the place of the error: what a server answers as a whole may repeat the credentials that it was sent. */
export function loggable(error: unknown) {
  const { name, stack } = error instanceof Error ? error : { name: typeof error, stack: '' };
  const message = reasonOf(error);
  const frames = (stack ?? '').split('\n').filter((line) => /^ {4}at /.test(line));
  return { err: { type: name, message, stack: [`${name}: ${message}`, ...frames].join('\n') } };
}

/** Text of a server, for one line of a person's screen, which a database takes. */
export function oneLine(text: string, longest = longestReason): string {
  // It may have megabytes, of which one line is shown.
  const read = text.slice(0, longest * 10);
  const line = read.replaceAll(/[\p{Cc}\p{Bidi_Control}]+/gu, ' ').trim();
  return (line.length > longest ? `${line.slice(0, longest)}…` : line).toWellFormed();
}

/** Some servers say 400 to a session that they do not know; but others to a tool call that they have carried out. */
export function isSessionGone(error: unknown): boolean {
  return isSessionUnknown(error) || (error instanceof SdkHttpError && error.data.status === 400);
}

/** As the protocol has it: then nothing was done. */
export function isSessionUnknown(error: unknown): boolean {
  return error instanceof SdkHttpError && error.data.status === 404;
}

/** Whether nothing was done: the request never came to the server, or it says itself that it refuses it. */
export function isRefusal(error: unknown): boolean {
  if (error instanceof OutcomeUnknown) return false;
  if (error instanceof McpFailure || error instanceof UnauthorizedError || wantsLogin(error)) return true;
  // A fault inside of the server may have come in the middle of its work.
  if (error instanceof ProtocolError) return error.code !== ProtocolErrorCode.InternalError;
  if (error instanceof SdkHttpError) return refusingStatuses.has(error.data.status);
  for (let at = error; at instanceof Error; at = at.cause)
    if ('code' in at && typeof at.code === 'string' && neverSent.has(at.code)) return true;
  return false;
}

/** Whether a person who logs in may help: there is no login, or it may do too little. */
export function wantsLogin(error: unknown): boolean {
  return error instanceof LoginNeeded || error instanceof InsufficientScopeError;
}

function scopeFault({ requiredScope }: InsufficientScopeError): string {
  const wanted = requiredScope ? `; it asks for the scope ${oneLine(requiredScope)}` : '';
  return `its login does not allow that${wanted}`;
}

/** 400 is not one of them: see `isSessionGone`. */
const refusingStatuses = new Set([401, 403, 404, 405, 406, 413, 415, 429]);

/** Codes of the guard, of the connecting and of its certificates. */
const neverSent = new Set([
  ...['url_refused', 'address_refused', 'redirect_refused'],
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'],
  ...['CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN'],
  ...['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'ERR_TLS_CERT_ALTNAME_INVALID'],
  SdkErrorCode.NotConnected,
]);

const startFaults: Readonly<Record<string, string>> = {
  ENOENT: 'its command was not found',
  EACCES: 'its command may not be run',
  E2BIG: 'its arguments are too long',
};

/** A sentence as the rest of one. */
function asReason(sentence: string): string {
  return sentence
    .replace(/^The /, 'the ')
    .replace(/^There /, 'there ')
    .replace(/\.$/, '');
}
