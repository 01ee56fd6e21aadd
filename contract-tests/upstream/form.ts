// Reads a form with files, and shows it to tests without their bytes.
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Refusal } from './dialect.ts';
import type { FormFile } from './openai-media.ts';

type Form = Readonly<Record<string, string | FormFile>>;

/** Throws a `Refusal` where it is none. A name that comes again counts as it came last. */
export async function readForm(bytes: Buffer, headers: IncomingHttpHeaders): Promise<Form> {
  const type = headers['content-type'] ?? '';
  if (!type.startsWith('multipart/form-data'))
    throw new Refusal(400, 'The content-type must be multipart/form-data.');
  const form = await new Response(new Uint8Array(bytes), { headers: { 'content-type': type } })
    .formData()
    .catch((error: unknown) => {
      throw new Refusal(400, `We could not parse the form of your request: ${String(error)}`);
    });
  const entries = Array.from(form, async ([name, value]) => [name, await contentOf(value)] as const);
  return Object.fromEntries(await Promise.all(entries));
}

/** A file as its name, its type, its size and what tells it from others. */
export function shownForm(form: Form): unknown {
  return Object.fromEntries(
    Object.entries(form).map(([name, value]) => [name, typeof value === 'string' ? value : shown(value)]),
  );
}

async function contentOf(value: string | File): Promise<string | FormFile> {
  if (typeof value === 'string') return value;
  return { name: value.name, type: value.type, bytes: Buffer.from(await value.arrayBuffer()) };
}

function shown({ name, type, bytes }: FormFile) {
  return { name, type, size: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
}
