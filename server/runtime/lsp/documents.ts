/** The documents that a language server has open: always with the content that is on disk. */
import { createHash } from 'node:crypto';
import { fstatSync, readFileSync } from 'node:fs';
import { keepNewest } from '../../keep-newest.ts';
import { readInPlace } from '../tools/read-in-place.ts';
import { type Reports, uriOf } from './diagnostics.ts';
import { languageIdOf } from './file-types.ts';

/** Larger files are data or generated; a server would be busy with them for long. */
const mostDocumentBytes = 2 * 1024 ** 2;
const mostOpen = 50;
/** Of so many is known that they were open. */
const mostKnown = 2000;

/** The text of a file as it is on disk; null where there is none, or it is too large or not text. */
export function readDocument(path: string): string | null {
  return readInPlace(path, (_openedAt, descriptor) => {
    const stats = fstatSync(descriptor);
    if (!stats.isFile() || stats.size > mostDocumentBytes) return null;
    const content = readFileSync(descriptor);
    return content.includes(0) ? null : content.toString('utf8');
  });
}

/** What the server was told of a document. */
export interface SyncedDocument {
  readonly version: number;
  /** When it was told of this version, by `performance.now()`. */
  readonly since: number;
  /** When it was opened. */
  readonly opened: number;
}

/** Tells a server what it needs to know of files. */
export interface Documents {
  /** Opens the document, or tells what became of it; null where there is nothing that could be opened. */
  sync(path: string): SyncedDocument | null;
  /** What it was last told of one that is open. */
  get(path: string): SyncedDocument | undefined;
  /** Whether it is open, or was. */
  wasOpened(path: string): boolean;
  /** Those that are open, the one used last at the end. */
  paths(): readonly string[];
  /** The same for all that are open. */
  syncAll(): void;
}

interface OpenDocument {
  version: number;
  hash: string;
  since: number;
  readonly opened: number;
}

/** Documents of one server; `saves` tells whether it wants to hear of each save, and with the text. */
export function createDocuments(
  notify: (method: string, params: object) => void,
  saves: { readonly wanted: boolean; readonly withText: boolean },
  reports: Pick<Reports, 'delete'>,
): Documents {
  const open = new Map<string, OpenDocument>();
  const opened = new Map<string, true>();
  // Never begun anew, so that a document that is opened again is later than it was.
  let version = 0;
  const close = (path: string) => {
    if (open.delete(path)) notify('textDocument/didClose', { textDocument: { uri: uriOf(path) } });
  };
  const openNew = (path: string, text: string, hash: string): SyncedDocument => {
    const [oldest] = open.keys();
    if (oldest !== undefined && open.size >= mostOpen) close(oldest);
    const since = performance.now();
    const document = { version: ++version, hash, since, opened: since };
    open.set(path, document);
    keepNewest(opened, path, true, mostKnown);
    const textDocument = { uri: uriOf(path), languageId: languageIdOf(path), version, text };
    notify('textDocument/didOpen', { textDocument });
    return document;
  };
  const sync = (path: string): SyncedDocument | null => {
    const text = readDocument(path);
    if (text === null) {
      close(path);
      reports.delete(path);
      return null;
    }
    const hash = createHash('sha256').update(text).digest('base64');
    const document = open.get(path);
    if (!document) return openNew(path, text, hash);
    // Set anew, so that the document longest unused is the first to be closed.
    open.delete(path);
    open.set(path, document);
    if (document.hash === hash) return document;
    document.hash = hash;
    document.version = ++version;
    document.since = performance.now();
    const textDocument = { uri: uriOf(path), version: document.version };
    notify('textDocument/didChange', { textDocument, contentChanges: [{ text }] });
    if (saves.wanted)
      notify('textDocument/didSave', {
        textDocument: { uri: uriOf(path) },
        ...(saves.withText && { text }),
      });
    return document;
  };
  return {
    sync,
    get: (path) => open.get(path),
    wasOpened: (path) => opened.has(path),
    paths: () => [...open.keys()],
    syncAll() {
      for (const path of [...open.keys()]) sync(path);
    },
  };
}
