/** Office files are zip archives: opened within limits, so that a small file cannot fill the memory. */
import { type UnzipFileInfo, unzipSync } from 'fflate';
import { ParseFailure } from './parse-failure.ts';

const mostEntries = 10_000;
const mostUnpackedBytes = 256 * 1024 * 1024;
/** What real documents stay below by far, and archives that are made to explode do not. */
const mostRatio = 250;
/** Small parts of one repeated character may be packed as well as that. */
const ratioFromBytes = 8 * 1024 * 1024;

export interface Archive {
  /** The names of its parts. */
  readonly names: readonly string[];
  /** Null where there is none. */
  read(name: string): string | null;
}

/** Looks at the names first, then unpacks only the parts that are asked for. Archives within are never opened. */
export function openArchive(bytes: Uint8Array): Archive {
  const sizes = new Map<string, number>();
  let unpacked = 0;
  const look = ({ name, originalSize, size }: UnzipFileInfo): boolean => {
    unpacked += originalSize;
    if (sizes.size >= mostEntries) throw tooMuch(`more than ${mostEntries} parts`);
    if (unpacked > mostUnpackedBytes) throw tooMuch(`more than ${mostUnpackedBytes} bytes`);
    if (originalSize > ratioFromBytes && originalSize > size * mostRatio)
      throw tooMuch(`a part that grows to more than ${mostRatio} times its size`);
    sizes.set(name, originalSize);
    return false;
  };
  unzip(bytes, look);
  return {
    names: [...sizes.keys()],
    read(wanted) {
      if (!sizes.has(wanted)) return null;
      // Its own reader writes no more than the size that it was looked at with.
      const part = unzip(bytes, ({ name }) => name === wanted)[wanted];
      return part ? new TextDecoder().decode(part) : null;
    },
  };
}

function unzip(bytes: Uint8Array, filter: (part: UnzipFileInfo) => boolean): Record<string, Uint8Array> {
  try {
    return unzipSync(bytes, { filter });
  } catch (error) {
    if (error instanceof ParseFailure) throw error;
    throw new ParseFailure('malformed', 'The file is damaged: it cannot be unpacked. Save it again.', error);
  }
}

function tooMuch(what: string): ParseFailure {
  return new ParseFailure('too_large', `The file unpacks to ${what}; save it smaller, or in parts.`);
}
