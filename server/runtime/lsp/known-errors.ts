/** Which errors of files are news to the model: neither there before it changed anything, nor told before. */
import { keepNewest } from '../../keep-newest.ts';
import { statsInPlace } from '../tools/read-in-place.ts';
import type { Diagnostic, FileReport } from './diagnostics.ts';
import type { SyncedDocument } from './documents.ts';
import { isCurrent } from './judgement.ts';
import type { LanguageClient } from './language-client.ts';

/** Errors of a file that are news. */
export interface NewErrors {
  readonly path: string;
  /** Found too late for the note of the change that made this text; or that made the text before this one; else null. */
  readonly late: 'in this text' | 'in the text before' | null;
  readonly count: number;
  /** Those of them that are held. */
  readonly listed: readonly Diagnostic[];
}

/** A change that has been judged, as far as there was time. */
export interface JudgedChange {
  readonly path: string;
  /** When its note was begun, by `performance.now()`. */
  readonly since: number;
  /** Null where nothing was said of it in time. */
  readonly report: FileReport | null;
  /** What was answered of others since. */
  readonly answers: ReadonlyMap<string, FileReport>;
}

/** How often each message stands in a file; null is for errors beyond those that are held. Lines move with each edit. */
type Tally = ReadonlyMap<string | null, number>;

type SentVersion = Pick<SyncedDocument, 'version' | 'since'>;

/** What there is between us and a process of the server. */
interface Acquaintance {
  /** When it was first told of a change. */
  since: number | null;
  /** Until the change after the first one that it said anything after: so long it may still say what was wrong before. */
  isNew: boolean;
  /** Documents of which it has said something since they were opened, with the time of that. */
  met: ReadonlyMap<string, number>;
  /** The first and the last version of each file that a note was about. */
  readonly changes: Map<string, { readonly first: SentVersion; readonly last: SentVersion }>;
}

interface Known {
  readonly old: Tally;
  /** Of the text that the file has since its last change. */
  readonly told: Tally;
}

/** As many as files are reported of. */
const mostFiles = 2000;
const none: Tally = new Map();
const nothing: Known = { old: none, told: none };

/**
 * What is known of the errors that one server finds. What it finds too late for the note of a change belongs into the next
 * note, of whoever makes the next change: sessions that share a workspace share its files, and no server tells which change
 * made an error. So an error is told to one of them, once; again only when the file was changed and still has it, as the
 * notes of the file itself do. This outlives a process of the server: the next one finds the same errors anew.
 */
export class KnownErrors {
  readonly #known = new Map<string, Known>();
  readonly #changed = new Map<string, true>();
  /** Files whose own notes are being made, which tell their errors. */
  readonly #judged: string[] = [];
  readonly #acquaintances = new WeakMap<LanguageClient, Acquaintance>();

  /** Before the server is told of a change: forgets what is gone, and learns what is no change's doing. */
  begin(client: LanguageClient, path: string): void {
    const acquaintance = this.#acquaintanceOf(client);
    this.#forgetGone(client);
    for (const [other, report] of client.reports.all())
      if (!this.#judged.includes(other) && this.#isOld(client, other, report))
        this.#add(other, 'old', report);
    for (const [other, { first }] of acquaintance.changes) {
      const published = client.reports.published(other);
      if (published && isBefore(published, first)) this.#add(other, 'old', published);
    }
    meet(acquaintance, client);
    const { newest } = client.reports;
    if (acquaintance.since !== null && newest !== null && newest > acquaintance.since)
      acquaintance.isNew = false;
    acquaintance.since ??= performance.now();
    this.#judged.push(path);
  }

  /** After the note of a change that was begun. */
  end(path: string): void {
    this.#judged.splice(this.#judged.indexOf(path), 1);
  }

  /** A file was changed, whether or not the server could be told. */
  change(path: string): void {
    keepNewest(this.#changed, path, true, mostFiles);
  }

  /** What was told of a file in some other way. */
  tell(path: string, report: FileReport): void {
    this.#add(path, 'told', report);
  }

  /** What is to be told after a change besides the report of it; it counts as told from now on. */
  take(client: LanguageClient, change: JudgedChange): readonly NewErrors[] {
    const { path, report, answers } = change;
    const acquaintance = this.#acquaintanceOf(client);
    const former = this.#formerErrors(client, change);
    this.#set(path, { old: this.#knownOf(path).old, told: report ? tallyOf(report) : none });
    const synced = client.documents.get(path);
    if (synced) {
      const last = { version: synced.version, since: synced.since };
      const first = acquaintance.changes.get(path)?.first ?? last;
      keepNewest(acquaintance.changes, path, { first, last }, mostFiles);
    }
    const reports = new Map([...client.reports.all(), ...answers]);
    const others = [...reports].flatMap(([other, found]) => this.#errorsOf(client, change, other, found));
    meet(acquaintance, client);
    return [...former, ...others];
  }

  /** What it has said of the text before this change, when it was too late for its note, and not of this one yet. */
  #formerErrors(client: LanguageClient, { path, report }: JudgedChange): readonly NewErrors[] {
    const { last } = this.#acquaintanceOf(client).changes.get(path) ?? {};
    const [published, synced] = [client.reports.published(path), client.documents.get(path)];
    if (!last || !published || !synced) return [];
    if (isCurrent(published, synced) || isBefore(published, last)) return [];
    const known = combined(knownIn(this.#knownOf(path)), report ? tallyOf(report) : none, Math.max);
    return newErrors(path, 'in the text before', published, known);
  }

  /** What is to be told of another file. */
  #errorsOf(
    client: LanguageClient,
    { since }: JudgedChange,
    path: string,
    report: FileReport,
  ): readonly NewErrors[] {
    const synced = client.documents.get(path);
    if (report.errors === 0 || this.#judged.includes(path)) return [];
    if (synced && !isCurrent(report, synced)) return [];
    const isChanged = this.#changed.has(path);
    const isLate = (client.reports.published(path)?.at ?? since) < since;
    const late = isChanged && isLate ? 'in this text' : null;
    const found = newErrors(path, late, report, knownIn(this.#knownOf(path)));
    // Of files that were not open it may be said after they are gone.
    if (found.length === 0 || !this.#hasRoom(path) || (isLate && statsInPlace(path) === null)) return [];
    const isOld = !isChanged && this.#acquaintanceOf(client).isNew;
    this.#add(path, isOld ? 'old' : 'told', report);
    return isOld ? [] : found;
  }

  /**
   * Of a file that was not changed: what a process says at first, and what it says at first of a document, since many
   * servers speak only of those that are open.
   */
  #isOld(client: LanguageClient, path: string, report: FileReport): boolean {
    if (this.#changed.has(path)) return false;
    const { isNew, met } = this.#acquaintanceOf(client);
    const opened = client.documents.get(path)?.opened;
    return isNew || (opened !== undefined && met.get(path) !== opened && report.at >= opened);
  }

  /**
   * What is gone is news when it comes back. This is seen at the next change only: while it judges one, a server may take
   * back what it is about to find again.
   */
  #forgetGone({ reports, documents }: LanguageClient): void {
    for (const [path, { old, told }] of this.#known) {
      const said = reports.said(path);
      // A new process has not spoken of it yet.
      if (said.length === 0 && this.#known.size < mostFiles) continue;
      // What is taken back when a document is closed may be as it was.
      if (this.#changed.has(path) && !documents.get(path)) continue;
      const there = said.map(tallyOf).reduce((one, other) => combined(one, other, Math.max), none);
      this.#set(path, { old: combined(old, there, Math.min), told: combined(told, there, Math.min) });
    }
  }

  #add(path: string, which: keyof Known, report: FileReport): void {
    const known = this.#knownOf(path);
    this.#set(path, { ...known, [which]: combined(known[which], tallyOf(report), Math.max) });
  }

  #set(path: string, known: Known): void {
    if (known.old.size + known.told.size === 0) this.#known.delete(path);
    else if (this.#hasRoom(path)) this.#known.set(path, known);
  }

  /** Nothing is told of files beyond those that can be kept: it would be told at every change. */
  #hasRoom(path: string): boolean {
    return this.#known.has(path) || this.#known.size < mostFiles;
  }

  #knownOf(path: string): Known {
    return this.#known.get(path) ?? nothing;
  }

  #acquaintanceOf(client: LanguageClient): Acquaintance {
    const present = this.#acquaintances.get(client);
    if (present) return present;
    const made: Acquaintance = { since: null, isNew: true, met: new Map(), changes: new Map() };
    this.#acquaintances.set(client, made);
    return made;
  }
}

function meet(acquaintance: Acquaintance, { documents, reports }: LanguageClient): void {
  acquaintance.met = new Map(
    documents.paths().flatMap((path) => {
      const opened = documents.get(path)?.opened ?? Infinity;
      return reports.said(path).some(({ at }) => at >= opened) ? [[path, opened] as const] : [];
    }),
  );
}

/** Whether it is about a text that was there before this version. */
function isBefore(report: FileReport, { version, since }: SentVersion): boolean {
  return report.version === null ? report.at < since : report.version < version;
}

function newErrors(
  path: string,
  late: NewErrors['late'],
  report: FileReport,
  known: Tally,
): readonly NewErrors[] {
  const left = new Map(known);
  const listed = errorsIn(report).filter(({ message }) => {
    const count = left.get(message) ?? 0;
    left.set(message, count - 1);
    return count <= 0;
  });
  const unlisted = Math.max(0, (tallyOf(report).get(null) ?? 0) - (known.get(null) ?? 0));
  const count = listed.length + unlisted;
  return count === 0 ? [] : [{ path, late, count, listed }];
}

function errorsIn({ diagnostics }: FileReport): readonly Diagnostic[] {
  return diagnostics.filter(({ severity }) => severity === 'error');
}

function knownIn({ old, told }: Known): Tally {
  return combined(old, told, Math.max);
}

function tallyOf(report: FileReport): Tally {
  const tally = new Map<string | null, number>();
  const listed = errorsIn(report);
  for (const { message } of listed) tally.set(message, (tally.get(message) ?? 0) + 1);
  if (report.errors > listed.length) tally.set(null, report.errors - listed.length);
  return tally;
}

/** Both by their messages; of which there are none is left out. */
function combined(one: Tally, other: Tally, choose: (one: number, other: number) => number): Tally {
  const messages = new Set([...one.keys(), ...other.keys()]);
  const counts = [...messages].map(
    (message) => [message, choose(one.get(message) ?? 0, other.get(message) ?? 0)] as const,
  );
  return new Map(counts.filter(([, count]) => count > 0));
}
