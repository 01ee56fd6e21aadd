/** Objects in a bucket of S3: small ones put at once, larger ones in parts, and none to be seen before it is whole. */
import { Readable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadBucketCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  type S3Client,
  S3ServiceException,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { Problem } from '../../problem.ts';
import { createS3Client, type Fetch } from './s3-client.ts';
import { type ByteRange, placeOf, type S3Bucket, type S3Credentials, type Storage } from './storage.ts';

/** One of them is in memory for each upload; S3 wants at least 5 MiB, and takes 10,000 of them. */
const partBytes = 8 * 1024 * 1024;

/** A storage that sends nothing for so long has gone, however slowly the reader reads. */
const silenceMs = 60_000;

export function s3Storage(bucket: S3Bucket, credentials: S3Credentials | null, fetch: Fetch): Storage {
  const client = createS3Client(bucket, credentials, fetch);
  const nameOf = (key: string) => [bucket.prefix, placeOf(key)].filter(Boolean).join('/');
  const of = (key: string) => ({ Bucket: bucket.bucket, Key: nameOf(key) });
  return {
    backend: 's3',
    write: (key, bytes) => write(client, of(key), bytes),
    async read(key, range, size, signal) {
      const command = new GetObjectCommand({ ...of(key), ...rangeOf(range) });
      const answer = await asked(client.send(command, { ...(signal && { abortSignal: signal }) }));
      // In Node it is a stream of Node. It may break off, or be left, before anybody reads it: who does is told then.
      const body = (answer.Body as Readable).on('error', () => undefined);
      if (size !== undefined && wholeSizeOf(answer) !== size) {
        body.destroy();
        throw away(new Error(`The object ${key} should have ${size} bytes: ${wholeSizeOf(answer)}.`));
      }
      const bytes = Readable.from(watched(body), { objectMode: false });
      // Left before its first byte, the generator has not begun, and would end nothing.
      return bytes.once('close', () => body.destroy());
    },
    async sizeOf(key, signal) {
      const asking = client.send(new HeadObjectCommand(of(key)), { ...(signal && { abortSignal: signal }) });
      const found = await asking.catch((error: unknown) => {
        if (statusOf(error) === 404) return null;
        throw away(error);
      });
      return found && (found.ContentLength ?? null);
    },
    async delete(key) {
      await abortUploads(client, of(key));
      await asked(client.send(new DeleteObjectCommand(of(key))));
    },
    async ping(abortSignal) {
      await asked(client.send(new HeadBucketCommand({ Bucket: bucket.bucket }), { abortSignal }));
    },
  };
}

interface Place {
  readonly Bucket: string;
  readonly Key: string;
}

async function write(client: S3Client, place: Place, bytes: AsyncIterable<Uint8Array>): Promise<void> {
  let upload: string | undefined;
  let size = 0;
  const parts: { PartNumber: number; ETag: string | undefined }[] = [];
  for await (const { piece, last } of inPieces(bytes)) {
    size += piece.length;
    if (last && upload === undefined) {
      const put = (condition: Condition) =>
        client.send(new PutObjectCommand({ ...place, Body: piece, ...condition }));
      return await writeOnce(client, place, size, put);
    }
    upload ??= (await asked(client.send(new CreateMultipartUploadCommand(place)))).UploadId;
    const part = { ...place, UploadId: upload, PartNumber: parts.length + 1 };
    const { ETag } = await asked(client.send(new UploadPartCommand({ ...part, Body: piece })));
    parts.push({ PartNumber: part.PartNumber, ETag });
  }
  const whole = { ...place, UploadId: upload, MultipartUpload: { Parts: parts } };
  await writeOnce(client, place, size, (condition) =>
    client.send(new CompleteMultipartUploadCommand({ ...whole, ...condition })),
  );
}

interface Condition {
  readonly IfNoneMatch?: '*';
}

/** An attempt whose answer was lost has written the object all the same: what is there is then ours. */
async function writeOnce(
  client: S3Client,
  place: Place,
  size: number,
  attempt: (condition: Condition) => Promise<unknown>,
): Promise<void> {
  try {
    await attempt({ IfNoneMatch: '*' });
  } catch (error) {
    const status = statusOf(error);
    // There are servers that know no condition; keys are of one use all the same.
    if (status === 501) await asked(attempt({}));
    else if (status === undefined || !isPast.has(status) || (await sizeOf(client, place)) !== size)
      throw away(error);
  }
}

function statusOf(error: unknown): number | undefined {
  return error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined;
}

/** No such upload, or an object under this key: what an attempt that was made twice is answered with. */
const isPast: ReadonlySet<number> = new Set([404, 409, 412]);

/** Undefined where there is none, or nobody can tell: then the first error is what counts. */
async function sizeOf(client: S3Client, place: Place): Promise<number | undefined> {
  return await client.send(new HeadObjectCommand(place)).then(
    ({ ContentLength }) => ContentLength,
    () => undefined,
  );
}

/** Pieces as large as a part, the last one smaller or even empty. */
async function* inPieces(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<{ piece: Buffer; last: boolean }> {
  let held: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of bytes) {
    // Copied: whoever brings the bytes may use their memory again.
    held.push(Uint8Array.from(chunk));
    size += chunk.length;
    while (size > partBytes) {
      const all = Buffer.concat(held);
      yield { piece: all.subarray(0, partBytes), last: false };
      held = [all.subarray(partBytes)];
      size -= partBytes;
    }
  }
  yield { piece: Buffer.concat(held), last: true };
}

/** What an interrupted upload has left is seen by nobody, and is paid for until somebody aborts it. */
async function abortUploads(client: S3Client, { Bucket, Key }: Place): Promise<void> {
  const { Uploads = [] } = await asked(client.send(new ListMultipartUploadsCommand({ Bucket, Prefix: Key })));
  for (const { UploadId } of Uploads)
    await client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId })).catch((error: unknown) => {
      // Somebody else has aborted it, or brought it to its end.
      if (!(error instanceof S3ServiceException && error.name === 'NoSuchUpload')) throw away(error);
    });
}

/** Of a part the whole is told behind it: `bytes 0-3/10`. */
function wholeSizeOf({ ContentLength, ContentRange }: GetObjectCommandOutput): number | undefined {
  return ContentRange === undefined ? ContentLength : Number(ContentRange.split('/')[1]);
}

function rangeOf(range: ByteRange | undefined) {
  return range && { Range: `bytes=${range.first}-${range.last}` };
}

/** The time counts while bytes are waited for, and not while the reader has enough. */
async function* watched(stream: Readable): AsyncGenerator<Buffer> {
  const bytes = stream[Symbol.asyncIterator]();
  for (;;) {
    const heard = new AbortController();
    const silence = setTimeout(silenceMs, 'silence' as const, { signal: heard.signal, ref: false });
    silence.catch(() => undefined);
    const next = await Promise.race([asked(bytes.next()), silence]).finally(() => heard.abort());
    if (next === 'silence') throw away(new Error(`The storage sent nothing for ${silenceMs / 1000} s.`));
    if (next.done) return;
    yield next.value;
  }
}

async function asked<Answer>(answer: Promise<Answer>): Promise<Answer> {
  return await answer.catch((error: unknown) => {
    throw away(error);
  });
}

function away(cause: unknown): Problem {
  return new Problem(
    'storage_unavailable',
    'The storage does not answer, or not as it should; try again in a moment.',
    {
      cause,
    },
  );
}
