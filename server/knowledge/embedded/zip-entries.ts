/** Reads single files out of a zip archive that is in memory. */
import { inflateRawSync } from 'node:zlib';

const endMark = 0x06054b50;
const entryMark = 0x02014b50;
const stored = 0;
const deflated = 8;

interface Entry {
  readonly method: number;
  readonly packedBytes: number;
  readonly bytes: number;
  readonly start: number;
}

/** The content of one file. Throws where the archive holds none of that name, or packs it in a way of its own. */
export function readZipEntry(archive: Buffer, name: string): Buffer {
  const entry = findEntry(archive, name);
  if (!entry) throw new Error(`the archive holds no ${name}`);
  // The name and the extra field before the content are of the local header's own length.
  const start =
    entry.start + 30 + archive.readUInt16LE(entry.start + 26) + archive.readUInt16LE(entry.start + 28);
  const packed = archive.subarray(start, start + entry.packedBytes);
  if (entry.method === stored) return packed;
  if (entry.method !== deflated) throw new Error(`${name} is packed by the unknown method ${entry.method}`);
  return inflateRawSync(packed, { maxOutputLength: entry.bytes });
}

function findEntry(archive: Buffer, wanted: string): Entry | null {
  const end = archive.lastIndexOf(Buffer.from(Uint32Array.of(endMark).buffer));
  if (end < 0) throw new Error('that is no zip archive');
  let at = archive.readUInt32LE(end + 16);
  for (let left = archive.readUInt16LE(end + 10); left > 0; left -= 1) {
    if (archive.readUInt32LE(at) !== entryMark) throw new Error('the list of the archive is broken');
    const nameBytes = archive.readUInt16LE(at + 28);
    const entry = {
      method: archive.readUInt16LE(at + 10),
      packedBytes: archive.readUInt32LE(at + 20),
      bytes: archive.readUInt32LE(at + 24),
      start: archive.readUInt32LE(at + 42),
    };
    if (archive.toString('utf8', at + 46, at + 46 + nameBytes) === wanted) return entry;
    at += 46 + nameBytes + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  }
  return null;
}
