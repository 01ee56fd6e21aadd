/** The texts that were asked for last, open: whoever reads a long one by its pages has it unpacked once. */
import { type Positions, positionsIn } from './chunking/positions.ts';
import type { ParsedDocument } from './parsing/parsed-document.ts';

/** Places of pages are code points of the whole text. */
export interface OpenedText extends Pick<ParsedDocument, 'mediaType' | 'text'> {
  readonly characters: number;
  readonly place: Positions['place'];
  readonly pages: readonly { readonly page: number; readonly start: number; readonly end: number }[] | null;
}

export interface OpenedTexts {
  /** Reads what is not open, once for all who ask meanwhile. Null where there is nothing to read. */
  find(id: string, read: () => Promise<ParsedDocument | null>): Promise<OpenedText | null>;
  /** Keeps what somebody has at hand already. */
  keep(id: string, document: ParsedDocument): OpenedText;
}

/** Several of the longest that are read: what is more is closed, whatever was asked for longest ago first. */
const mostBytesOpen = 64 * 1024 * 1024;

export function openedTexts(mostBytes = mostBytesOpen): OpenedTexts {
  const opened = new Map<string, OpenedText>();
  const opening = new Map<string, Promise<OpenedText | null>>();
  let bytes = 0;

  const close = (id: string): void => {
    const text = opened.get(id);
    if (!text) return;
    bytes -= bytesOf(text);
    opened.delete(id);
  };
  const keepOpen = (id: string, text: OpenedText): OpenedText => {
    close(id);
    opened.set(id, text);
    bytes += bytesOf(text);
    for (const oldest of opened.keys()) {
      if (bytes <= mostBytes) break;
      close(oldest);
    }
    return text;
  };
  const begin: OpenedTexts['find'] = (id, read) => {
    const work = read()
      .then((document) => document && keepOpen(id, openedText(document)))
      .finally(() => opening.delete(id));
    opening.set(id, work);
    return work;
  };
  return {
    async find(id, read) {
      const present = opened.get(id);
      if (present) return keepOpen(id, present);
      return await (opening.get(id) ?? begin(id, read));
    },
    keep: (id, document) => keepOpen(id, openedText(document)),
  };
}

function openedText({ mediaType, text, pages }: ParsedDocument): OpenedText {
  const { codePoint, place } = positionsIn(text);
  const characters = codePoint(text.length);
  const starts = pages?.map(codePoint);
  return {
    ...{ mediaType, text, characters, place },
    pages:
      starts?.map((start, index) => ({ page: index + 1, start, end: starts[index + 1] ?? characters })) ??
      null,
  };
}

/** At most two for each unit of a string, and four for where each pair of them stands. */
function bytesOf({ text, characters }: OpenedText): number {
  return text.length * 2 + (text.length - characters) * 4;
}
