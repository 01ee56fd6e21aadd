/** Zip archives for tests, made by hand where no program would make them so. */
import { type ZippableFile, zipSync } from 'fflate';

/** An entry of an archive: its content, or with what no honest program writes. */
export type TestEntry = string | { readonly content: string; readonly mode?: number };

export function zipOf(entries: Readonly<Record<string, TestEntry>>): Uint8Array<ArrayBuffer> {
  const files = Object.entries(entries).map(([name, entry]) => {
    const { content, mode = 0o100644 } = typeof entry === 'string' ? { content: entry } : entry;
    // The upper half holds the mode where the archive says that it comes from Unix.
    const file: ZippableFile = [new TextEncoder().encode(content), { os: 3, attrs: mode * 0x10000 }];
    return [name, file] as const;
  });
  return Uint8Array.from(zipSync(Object.fromEntries(files)));
}
