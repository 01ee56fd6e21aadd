/** What is unpacked of an archive never takes more than the archive itself holds. */
import { randomBytes } from 'node:crypto';
import { type ZipOptions, zipSync } from 'fflate';
import { expect, test } from 'vitest';
import { cpuMsOf } from '../test-cpu.ts';
import { fileFaults } from './skill-files.ts';
import { readZip } from './zip-archive.ts';

/** So many entries in the list, and all name the one content, which is packed by the method. */
function sharing(count: number, method: number, packed: Buffer): Buffer {
  const local = Buffer.alloc(30);
  local.writeUInt32LE(0x04034b50, 0);
  const list = Array.from({ length: count }, (_, n) => {
    const name = Buffer.from(`file-${n}`);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(method, 10);
    entry.writeUInt32LE(packed.length, 20);
    entry.writeUInt32LE(1, 24);
    entry.writeUInt16LE(name.length, 28);
    return Buffer.concat([entry, name]);
  });
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(count, 10);
  end.writeUInt32LE(local.length + packed.length, 16);
  return Buffer.concat([local, packed, ...list, end]);
}

test.each([
  ['deflated', 8],
  ['stored', 0],
])('entries that share their bytes, %s, are refused as a whole, and none is unpacked', (_title, method) => {
  // Blocks without content, of which each has to be read.
  const packed = Buffer.alloc(1_000_000, Buffer.from([0, 0, 0, 0xff, 0xff]));
  expect(readZip(sharing(100, method, packed))).toEqual({
    entries: [],
    faults: [
      {
        path: null,
        line: null,
        code: 'archive',
        message: 'the list of the archive names more packed bytes than there are',
      },
    ],
  });
});

test.each<ZipOptions['level'] & number>([0, 1, 9])('what a program packs at level %i is read', (level) => {
  const files = Array.from({ length: 200 }, (_, n) => {
    const content = n % 2 ? randomBytes(n * 100) : Buffer.alloc(n * 100, 'again and ');
    return [`file-${n}`, Uint8Array.from(content)] as const;
  });
  const { entries, faults } = readZip(zipSync(Object.fromEntries(files), { level }));
  expect(faults).toEqual([]);
  expect(new Map(entries.map(({ path, content }) => [path, Buffer.from(content).toString('hex')]))).toEqual(
    new Map(files.map(([path, content]) => [path, Buffer.from(content).toString('hex')])),
  );
});

test('names of thousands of folders cost little, and are refused', async () => {
  const named = Array.from({ length: 20 }, (_, n) => ({ path: `${n}/${'a/'.repeat(8000)}b`, size: 1 }));
  const spent = await cpuMsOf(() =>
    expect(fileFaults(named).map(({ code }) => code)).toEqual(named.map(() => 'path')),
  );
  expect(spent).toBeLessThan(1000);
});
