// Sends the requests of the tools that reach the web, and says in words for a model what went wrong.
import { STATUS_CODES } from 'node:http';
import { type Outbound, type OutboundLimits, outboundSentence } from '../../outbound/outbound.ts';
import { type ToolContext, ToolInputError } from './tool.ts';

/** The URL that a model wrote, without the part that is never sent. */
export function webUrl(given: string): URL {
  const url = URL.canParse(given) ? new URL(given) : null;
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw new ToolInputError(`${JSON.stringify(given)} is no http or https URL.`);
  url.hash = '';
  return url;
}

/** A good answer, redirects followed within the site, past what a rule denies: a person has allowed this one, and no other. */
export async function askServer(
  outbound: Outbound,
  url: URL,
  limits: OutboundLimits,
  { signal, hidden, accept }: Pick<ToolContext, 'signal' | 'hidden'> & { readonly accept: string },
): Promise<Response> {
  const headers = {
    accept,
    'accept-language': 'en, *;q=0.5',
    'user-agent': 'service (an agent, for a person)',
    ...(limits.asSent && { 'accept-encoding': 'identity' }),
  };
  const isDenied = await hidden();
  let elsewhere: URL | null = null;
  const mayRedirect = (target: URL, first: URL) => {
    const may = isSameSite(target, first) && !isDenied?.(target.href);
    if (!may) elsewhere = target;
    return may;
  };
  const fetch = outbound.fetchFor('stranger', { ...limits, mayRedirect });
  const response = await fetch(url, { headers, signal }).catch((error: unknown) => {
    if (!elsewhere) failed(error);
    throw new ToolInputError(
      `The server redirects to another place, ${elsewhere.href}. Ask for that one if you want it.`,
    );
  });
  if (response.ok) return response;
  await response.body?.cancel();
  const meaning = STATUS_CODES[response.status];
  throw new ToolInputError(
    `${url.href} answered with status ${response.status}${meaning ? ` (${meaning})` : ''}.`,
  );
}

/**
 * The type that a server says, without parameters; null where it says none. A header is a stranger's words, which are told
 * to models outside of any mark: what is no type is not repeated.
 */
export function mediaTypeIn(header: string | null): string | null {
  const type = (header ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return type.length <= 100 && /^[\w.+-]+\/[\w.+-]+$/.test(type) ? type : null;
}

/** The body, or its beginning: what is over the bound is not received. */
export async function readBody(
  response: Response,
  maxBytes: number,
): Promise<{ readonly bytes: Buffer; readonly cut: boolean }> {
  const chunks: Uint8Array[] = [];
  let room = maxBytes;
  for await (const chunk of bodyOf(response)) {
    chunks.push(chunk.subarray(0, room));
    room -= chunk.byteLength;
    // Leaving the loop ends the answer.
    if (room < 0) break;
  }
  return { bytes: Buffer.concat(chunks), cut: room < 0 };
}

/** The chunks of the body; throws in words for a model. */
export async function* bodyOf(response: Response): AsyncGenerator<Uint8Array> {
  try {
    // `as`: bodies of the HTTP client are byte streams, which the platform's types do not say.
    for await (const chunk of response.body ?? []) yield chunk as Uint8Array;
  } catch (error) {
    failed(error);
  }
}

function failed(cause: unknown): never {
  throw new ToolInputError(outboundSentence(cause), { cause });
}

/** The same host with or without `www.`, and never from https back to http. */
function isSameSite(target: URL, first: URL): boolean {
  const bare = ({ hostname }: URL) => hostname.replace(/^www\./, '');
  if (target.protocol === 'http:' && first.protocol === 'https:') return false;
  const usualPorts = target.port === '' && first.port === '';
  return bare(target) === bare(first) && (usualPorts || target.port === first.port);
}
