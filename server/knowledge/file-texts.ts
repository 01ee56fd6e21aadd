/** What stands in an uploaded file: read when somebody first asks for it, and kept for whoever asks next. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Problem } from '../problem.ts';
import { codePointsOf } from './chunking/positions.ts';
import type { FoundFile, KeptTexts } from './ingestion-ports.ts';
import { contentOf } from './ingestion-source.ts';
import { type OpenedText, openedTexts } from './opened-texts.ts';
import { ParseFailure } from './parsing/parse-failure.ts';
import { type DocumentClaims, parserOf } from './parsing/parse-names.ts';
import type { Parsers } from './parsing/parsers.ts';

/** A part of what stands in a file. Places are code points of the whole text. */
export interface FileText {
  readonly mediaType: string;
  readonly characters: number;
  readonly offset: number;
  readonly text: string;
  /** Null where there are none. */
  readonly pages: OpenedText['pages'];
}

/** What somebody asks for. */
export interface FileTextWanted {
  readonly offset: number;
  readonly limit: number;
  /** How long to wait for a file that has to be read first. */
  readonly waitMs: number;
  /** Whoever asks waits no longer; the file is read all the same, for others and for the next time. */
  readonly signal?: AbortSignal;
}

export interface FileTexts {
  /** Null while it is being read: whoever asks again later gets it. Throws `not_found` or `file_unreadable`. */
  find(fileId: string, wanted: FileTextWanted): Promise<FileText | null>;
  /** How many files are being read or wait for it, and how many may. */
  queue(): { readonly waiting: number; readonly limit: number };
  close(): Promise<void>;
}

export interface FileTextsOptions {
  readonly file: (id: string) => Promise<(FoundFile & { readonly organizationId: string }) | null>;
  readonly texts: KeptTexts;
  readonly parsers: Pick<Parsers, 'parse'>;
}

interface Reading {
  readonly organizationId: string;
  readonly text: Promise<OpenedText>;
}

/** How long a failure is told to whoever asks again, before the file is read once more. */
const failureMs = 60_000;

/** Of more the oldest are forgotten, and their files read once more when somebody asks. */
const mostFailures = 1000;

/** More at once are refused: each waits with an answer that somebody wants. */
const mostAtOnce = 100;

/** Nor may one organization alone have all of them. */
const mostOfOne = 10;

/** What is larger is no document: its bytes would only be sent to a process that is killed for them. */
const mostBytes = 256 * 1024 * 1024;

export function createFileTexts({ file, texts, parsers }: FileTextsOptions): FileTexts {
  const stopping = new AbortController();
  const reading = new Map<string, Reading>();
  const failures = rememberedFailures();
  const opened = openedTexts();

  const begin = (
    name: string,
    organizationId: string,
    work: () => Promise<OpenedText>,
  ): Promise<OpenedText> => {
    const own = [...reading.values()].filter((one) => one.organizationId === organizationId);
    if (reading.size >= mostAtOnce || own.length >= mostOfOne)
      throw new Problem('overloaded', 'Too many files are being read; ask again in a moment.');
    const begun = work();
    reading.set(name, { organizationId, text: begun });
    begun
      .catch((error: unknown) => {
        if (error instanceof ParseFailure) failures.remember(name, error);
      })
      .finally(() => reading.delete(name));
    return begun;
  };
  return {
    async find(fileId, wanted) {
      const found = await file(fileId);
      if (!found) throw new Problem('not_found', 'The file was deleted meanwhile.');
      const { organizationId, sha256 } = found;
      const bytes = { organizationId, sha256, parser: parserOf(claimsOf(found)) };
      const id = await texts.find(bytes);
      const kept = id && (await opened.find(id, () => texts.read(id)));
      if (kept) return partOf(kept, wanted);
      const name = Object.values(bytes).join(' ');
      const failure = failures.find(name);
      if (failure) throw unreadable(failure);
      const work = reading.get(name)?.text ?? begin(name, organizationId, () => read(found, bytes));
      const text = await inTime(work, wanted).catch((error: unknown) => {
        throw error instanceof ParseFailure ? unreadable(error) : error;
      });
      return text && partOf(text, wanted);
    },
    queue: () => ({ waiting: reading.size, limit: mostAtOnce }),
    async close() {
      stopping.abort(new Error('The server stops.'));
      failures.close();
      await Promise.allSettled([...reading.values()].map(({ text }) => text));
    },
  };

  async function read(found: FoundFile, bytes: Parameters<KeptTexts['keep']>[0]): Promise<OpenedText> {
    if (found.size > mostBytes)
      throw new ParseFailure(
        'too_large',
        `Only files of at most ${mostBytes / 1024 / 1024} MB are read; save it in parts.`,
      );
    const { document } = await parsers.parse(
      bytes.organizationId,
      contentOf(found),
      claimsOf(found),
      null,
      stopping.signal,
    );
    const id = await texts.keep(bytes, document, codePointsOf(document.text));
    return opened.keep(id, document);
  }
}

/** Apart from what is being read: however many files cannot be, others can. */
function rememberedFailures() {
  const failures = new Map<string, { readonly error: ParseFailure; readonly timer: NodeJS.Timeout }>();
  const forget = (name: string): void => {
    clearTimeout(failures.get(name)?.timer);
    failures.delete(name);
  };
  return {
    find: (name: string) => failures.get(name)?.error,
    remember(name: string, error: ParseFailure): void {
      forget(name);
      failures.set(name, { error, timer: setTimeout(() => forget(name), failureMs).unref() });
      const [oldest] = failures.keys();
      if (failures.size > mostFailures && oldest !== undefined) forget(oldest);
    },
    close(): void {
      for (const name of failures.keys()) forget(name);
    },
  };
}

/** Of an upload nothing is kept that says how it is encoded. */
function claimsOf({ filename }: FoundFile): DocumentClaims {
  return { name: filename, charset: null };
}

/** Null where it takes longer. */
async function inTime<T>(
  work: Promise<T>,
  { waitMs, signal }: Pick<FileTextWanted, 'waitMs' | 'signal'>,
): Promise<T | null> {
  if (waitMs === 0) return await Promise.race([work, null]);
  const heard = new AbortController();
  const until = AbortSignal.any([heard.signal, ...(signal ? [signal] : [])]);
  const patience = sleep(waitMs, null, { signal: until, ref: false }).catch((error: unknown) => {
    throw signal?.aborted ? signal.reason : error;
  });
  patience.catch(() => undefined);
  return await Promise.race([work, patience]).finally(() => heard.abort());
}

function unreadable({ message, cause }: ParseFailure): Problem {
  return new Problem('file_unreadable', message, { cause });
}

function partOf(
  { mediaType, text, characters, place, pages }: OpenedText,
  { offset, limit }: FileTextWanted,
): FileText {
  const start = Math.min(offset, characters);
  const part = text.slice(place(start), place(Math.min(start + limit, characters)));
  return { mediaType, characters, offset: start, text: part, pages };
}
