/** The pictures and documents of a conversation: read for one call of a model, and held no longer. */
import type { FilePart, ModelMessage, ModelMessagePart } from '../models/model.ts';
import type { Transcript } from '../transcript.ts';
import { leftOut } from './conversation.ts';

/**
 * The conversation with the bytes of the files that its session keeps. They are up to 43 MB, which a run that waits for a
 * person or for a command must not hold.
 */
export async function withFiles(
  { transcript, sessionId }: { readonly transcript: Transcript; readonly sessionId: string },
  conversation: readonly ModelMessage[],
): Promise<readonly ModelMessage[]> {
  const parts = conversation.flatMap((message) => message.parts).filter(isKept);
  if (parts.length === 0) return conversation;
  const newestFirst = parts.toReversed();
  const contents = await transcript.readFiles(
    sessionId,
    newestFirst.map(({ kept }) => kept.sha256),
  );
  const shown = new Map(newestFirst.map((part, index) => [part, shownAs(part, contents[index] ?? null)]));
  return conversation.map((message) =>
    message.parts.some(isKept)
      ? { ...message, parts: message.parts.map((part) => (isKept(part) ? (shown.get(part) ?? part) : part)) }
      : message,
  );
}

type KeptPart = FilePart & Required<Pick<FilePart, 'kept'>>;

function isKept(part: ModelMessagePart): part is KeptPart {
  return part.type === 'file' && part.kept !== undefined;
}

/** Its provider may still fetch what was not read. */
function shownAs({ kept: _place, ...file }: KeptPart, data: string | null): ModelMessagePart {
  if (data) return { ...file, data };
  return file.data === '' ? leftOut(file) : file;
}
