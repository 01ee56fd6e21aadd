/** The files that a query shows with its prompt, as parts of its message. */
import type { MessagePart, StoredFile } from '../contract/api.ts';
import type { Call, Principal, Services } from '../handler.ts';
import { Problem } from '../problem.ts';

/** What models are shown as it is; of any other document they are given the text. */
const shown = /^(?:image\/(?:jpeg|png|gif|webp)|application\/pdf)$/;
/** No provider takes more, and no model is shown more of a session at once. */
const mostBytes = 32 * 1024 * 1024;
/** Of text, in all: a model would hardly take more. */
const mostCharacters = 1_000_000;
/** Per file. */
const patienceMs = 60_000;

/**
 * Throws `scope_required`, `not_found`, `invalid_request` where they are too much, `file_unreadable` for what is no
 * document, and `overloaded` where a text is not read in time. Nothing is waited for once its caller has gone.
 */
export async function attachedParts(
  { principal, body, signal }: Pick<Call<'createQuery'>, 'principal' | 'body' | 'signal'>,
  services: Services,
): Promise<readonly MessagePart[]> {
  const { attachments: fileIds = [] } = body;
  if (fileIds.length > 0 && !principal.scopes.has('files:read'))
    throw new Problem('scope_required', 'This API key lacks the scope files:read, which attachments need.');
  const files = await Promise.all(fileIds.map((id, index) => fileAt(principal, id, index, services)));
  refuseAbove(mostBytes, 'bytes', files, ({ media_type, size }) => (shown.test(media_type) ? size : 0));
  const parts: MessagePart[] = [];
  let characters = 0;
  // One after the other: not every file is in memory twice at once, and none is read once the text is too much.
  for (const [index, file] of files.entries()) {
    signal.throwIfAborted();
    if (shown.test(file.media_type)) {
      parts.push(await shownPart(file, signal, services));
      continue;
    }
    const { text, characters: more } = await textOf(file, index, signal, services);
    characters += more;
    if (characters > mostCharacters) throw tooMuch(index, mostCharacters, 'characters of text');
    parts.push({ type: 'text', text: `${file.filename}\n\n${text}` });
  }
  return parts;
}

async function fileAt(
  principal: Principal,
  id: string,
  index: number,
  { store }: Services,
): Promise<StoredFile> {
  const found = await store.files.find(principal, id);
  if (found) return found.file;
  throw new Problem(
    'not_found',
    `The file that attachments/${index} names is not there, or it is not yours; leave it out.`,
  );
}

function refuseAbove(
  most: number,
  unit: string,
  files: readonly StoredFile[],
  sizeOf: (file: StoredFile) => number,
): void {
  let sum = 0;
  for (const [index, file] of files.entries()) {
    sum += sizeOf(file);
    if (sum > most) throw tooMuch(index, most, unit);
  }
}

async function shownPart(
  { id, filename: name, media_type, size, sha256 }: StoredFile,
  signal: AbortSignal,
  { store }: Services,
): Promise<MessagePart> {
  const read = await store.files.read(id, undefined, signal);
  const bytes = Buffer.concat(await Array.fromAsync<Uint8Array>(read));
  return { type: 'file', media_type, name, size, sha256, data: bytes.toString('base64') };
}

async function textOf({ id }: StoredFile, index: number, signal: AbortSignal, { fileTexts }: Services) {
  const wanted = { offset: 0, limit: mostCharacters, waitMs: patienceMs, signal };
  const found = await fileTexts.find(id, wanted).catch((error: unknown) => {
    if (!(error instanceof Problem) || error.code !== 'file_unreadable') throw error;
    throw new Problem(error.code, `attachments/${index}: ${error.message}`, { cause: error });
  });
  if (found) return found;
  throw new Problem(
    'overloaded',
    `The text of attachments/${index} is still being read; ask again in a moment.`,
  );
}

function tooMuch(index: number, most: number, unit: string): Problem {
  return new Problem(
    'invalid_request',
    `body/attachments/${index}: with this one they have more than ${most} ${unit}; leave some out, or put them into a corpus and name that.`,
    {
      errors: [
        {
          in: 'body',
          pointer: `/attachments/${index}`,
          message: `at most ${most} ${unit} in all`,
          code: 'size',
        },
      ],
    },
  );
}
