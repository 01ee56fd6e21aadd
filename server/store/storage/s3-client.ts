/** Speaks to S3 through the fetch that it is given: the guard of outgoing requests, which knows what may be reached. */
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { S3Client } from '@aws-sdk/client-s3';
import type { S3Bucket, S3Credentials } from './storage.ts';

export type Fetch = typeof globalThis.fetch;

/** Of what comes after the first try: a storage that is away is told of within seconds. */
const mostAttempts = 3;

/** Without credentials those of the environment count, or what the machine that this runs on has been given. */
export function createS3Client(
  { endpoint, region, pathStyle }: S3Bucket,
  credentials: S3Credentials | null,
  fetch: Fetch,
): S3Client {
  return new S3Client({
    ...(endpoint !== null && { endpoint }),
    ...(credentials && { credentials }),
    region,
    forcePathStyle: pathStyle,
    maxAttempts: mostAttempts,
    // The signature holds a hash of what is sent; the newer checksums are not known to every server.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    expectContinueHeader: false,
    requestHandler: handlerOver(fetch),
  });
}

type Handler = S3Client['config']['requestHandler'];
type Handle = Handler['handle'];
type Request = Parameters<Handle>[0];

function handlerOver(fetch: Fetch): Handler {
  return {
    handle: (async (request: Request, options?: { readonly abortSignal?: AbortSignal }) => {
      const answer = await fetch(urlOf(request), {
        method: request.method,
        headers: { ...request.headers, 'accept-encoding': 'identity' },
        redirect: 'manual',
        ...(request.body !== undefined && { body: request.body }),
        ...(options?.abortSignal && { signal: options.abortSignal }),
      });
      const { status, headers, body } = answer;
      return {
        response: {
          statusCode: status,
          headers: Object.fromEntries(headers),
          // `as`: two descriptions of one standard.
          body: body ? Readable.fromWeb(body as ReadableStream) : Readable.from([]),
        },
      };
    }) as Handle,
    updateHttpClientConfig: () => undefined,
    httpHandlerConfigs: () => ({}),
  };
}

function urlOf({ protocol, hostname, port, path, query = {} }: Request): string {
  const url = new URL(`${protocol}//${hostname}${port === undefined ? '' : `:${port}`}`);
  url.pathname = path;
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    valuesOf(value).map((one) => `${encoded(name)}=${encoded(one)}`),
  );
  return pairs.length === 0 ? url.href : `${url.href}?${pairs.join('&')}`;
}

function valuesOf(value: NonNullable<Request['query']>[string]): readonly string[] {
  if (value === null) return [''];
  return typeof value === 'string' ? [value] : value;
}

/** As it was signed: stricter than a URL has to be. */
function encoded(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
