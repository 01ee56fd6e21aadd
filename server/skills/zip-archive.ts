/** Reads a zip archive that a stranger sent: its list first, then only what is small enough, and never a link. */
import { crc32, inflateRawSync } from 'node:zlib';
import { mostBytes, mostFileBytes, mostFiles, type SkillEntry, type SkillFault } from './skill-files.ts';

const endMark = 0x06054b50;
const entryMark = 0x02014b50;
const localMark = 0x04034b50;
/** The fixed part of the end, and the longest comment behind it. */
const endBytes = 22;
const longestComment = 65_535;
const stored = 0;
const deflated = 8;
const encryptedFlag = 1;
const unix = 3;
const typeMask = 0o170000;
const linkType = 0o120000;
const folderType = 0o040000;
const fileType = 0o100000;
/** Where it stands for a number that did not fit. */
const elsewhere = 0xffffffff;
/** Folders have entries of their own. */
const mostEntries = mostFiles * 4;

interface ListedEntry {
  readonly path: string;
  readonly flags: number;
  readonly method: number;
  readonly crc: number;
  readonly packedBytes: number;
  readonly bytes: number;
  readonly start: number;
  /** Of Unix; 0 where the archive was made elsewhere. */
  readonly mode: number;
}

export interface ReadArchive {
  readonly entries: readonly SkillEntry[];
  readonly faults: readonly SkillFault[];
}

export function isZip(bytes: Uint8Array): boolean {
  const mark = bytes.length < 4 ? 0 : Buffer.from(bytes.buffer, bytes.byteOffset, 4).readUInt32LE();
  return mark === localMark || mark === endMark;
}

/** The files in it, and what is wrong with the others. What is said of sizes is believed only as a bound. */
export function readZip(bytes: Uint8Array): ReadArchive {
  const archive = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const faults: SkillFault[] = [];
  const add = (path: string | null, code: string, message: string) =>
    faults.push({ path, line: null, code, message });
  const listed = listEntries(archive);
  if (typeof listed === 'string') return { entries: [], faults: [fault(null, 'archive', listed)] };
  const total = listed.reduce((sum, { bytes: size }) => sum + size, 0);
  if (listed.length > mostEntries)
    add(null, 'too_many_files', `the archive has more than ${mostEntries} entries`);
  if (total > mostBytes) add(null, 'too_large', `the archive unpacks to more than ${mostBytes} bytes`);
  if (packedBytesOf(listed) > archive.length)
    add(null, 'archive', 'the list of the archive names more packed bytes than there are');
  if (faults.length > 0) return { entries: [], faults };
  const entries: SkillEntry[] = [];
  for (const entry of listed) {
    if (isFolder(entry)) continue;
    const content = refusalOf(entry) ?? contentOf(archive, entry);
    if (typeof content === 'string') add(entry.path, 'archive', content);
    else entries.push({ path: entry.path, executable: (entry.mode & 0o111) !== 0, content });
  }
  return { entries, faults };
}

/** Of all that would be unpacked: where entries share bytes, each reads them again. */
function packedBytesOf(listed: readonly ListedEntry[]): number {
  const read = listed.filter((entry) => !isFolder(entry) && refusalOf(entry) === null);
  return read.reduce((sum, { packedBytes }) => sum + packedBytes, 0);
}

function fault(path: string | null, code: string, message: string): SkillFault {
  return { path, line: null, code, message };
}

/** Why there is no list, in a sentence without its full stop. */
function listEntries(archive: Buffer): ListedEntry[] | string {
  const end = endOf(archive);
  if (end < 0) return 'the archive is cut off: its list is missing';
  const count = archive.readUInt16LE(end + 10);
  if (count === 0xffff || archive.readUInt32LE(end + 16) === elsewhere)
    return 'the archive is of the large kind (zip64); a skill is small';
  const entries: ListedEntry[] = [];
  let at = archive.readUInt32LE(end + 16);
  for (let left = count; left > 0; left -= 1) {
    if (at + 46 > end || archive.readUInt32LE(at) !== entryMark) return 'the list of the archive is broken';
    const nameBytes = archive.readUInt16LE(at + 28);
    const next = at + 46 + nameBytes + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
    if (next > end) return 'the list of the archive is broken';
    const path = nameOf(archive.subarray(at + 46, at + 46 + nameBytes));
    if (path === null) return 'the archive has a name that is not UTF-8';
    entries.push({
      path,
      flags: archive.readUInt16LE(at + 8),
      method: archive.readUInt16LE(at + 10),
      crc: archive.readUInt32LE(at + 16),
      packedBytes: archive.readUInt32LE(at + 20),
      bytes: archive.readUInt32LE(at + 24),
      start: archive.readUInt32LE(at + 42),
      mode: archive.readUInt8(at + 5) === unix ? archive.readUInt16LE(at + 40) : 0,
    });
    at = next;
  }
  return entries;
}

/** The last mark behind which just a comment of its length stands. */
function endOf(archive: Buffer): number {
  const first = Math.max(0, archive.length - endBytes - longestComment);
  for (let at = archive.length - endBytes; at >= first; at -= 1)
    if (
      archive.readUInt32LE(at) === endMark &&
      at + endBytes + archive.readUInt16LE(at + 20) === archive.length
    )
      return at;
  return -1;
}

function nameOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    // What it would be in another encoding nobody can say.
    return null;
  }
}

function isFolder({ path, mode, bytes }: ListedEntry): boolean {
  return bytes === 0 && path.endsWith('/') && [0, folderType].includes(mode & typeMask);
}

function refusalOf({ flags, method, mode, bytes, packedBytes, start }: ListedEntry): string | null {
  if ((mode & typeMask) === linkType) return 'is a link; put the file itself there';
  if (![0, fileType].includes(mode & typeMask)) return 'is neither a file nor a folder';
  if ((flags & encryptedFlag) !== 0) return 'is encrypted';
  if (method !== stored && method !== deflated)
    return `is packed by the method ${method}; only deflate is read`;
  if ([bytes, packedBytes, start].includes(elsewhere)) return 'is of the large kind (zip64)';
  return bytes > mostFileBytes ? `has more than ${mostFileBytes} bytes` : null;
}

/** Why it cannot be read, in words without a full stop. */
function contentOf(
  archive: Buffer,
  { start, method, packedBytes, bytes, crc }: ListedEntry,
): Uint8Array | string {
  if (start + 30 > archive.length || archive.readUInt32LE(start) !== localMark)
    return 'is not where the list says';
  // The name and the extra field before the content are of the local header's own length.
  const begin = start + 30 + archive.readUInt16LE(start + 26) + archive.readUInt16LE(start + 28);
  const packed = archive.subarray(begin, begin + packedBytes);
  if (packed.length < packedBytes) return 'is cut off';
  const content = method === stored ? Uint8Array.from(packed) : inflated(packed, bytes);
  if (content === null || content.length !== bytes || crc32(content) !== crc)
    return 'is damaged, or not as large as the list says';
  return content;
}

/** Never more than was announced. */
function inflated(packed: Uint8Array, bytes: number): Uint8Array | null {
  try {
    return inflateRawSync(packed, { maxOutputLength: Math.max(bytes, 1) });
  } catch {
    // Damaged or longer than announced: the caller says so.
    return null;
  }
}
