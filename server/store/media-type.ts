/** What a file is, told by its first bytes: what an upload claims to be does not count. */
import { extname } from 'node:path';

/** As much as the formats need whose mark stands late, such as those of office programs in their archives. */
export const sampleBytes = 65_536;

/** Text is told from text by the name alone: none of these is anything but text. */
const texts: Readonly<Record<string, string>> = {
  '.md': 'text/markdown',
  '.markdown': 'text/markdown',
  '.html': 'text/html',
  '.htm': 'text/html',
  '.csv': 'text/csv',
  '.json': 'application/json',
  '.xml': 'application/xml',
};

export async function mediaTypeOf(filename: string, sample: Uint8Array): Promise<string> {
  const { fileTypeFromBuffer } = await import('file-type');
  const found = await fileTypeFromBuffer(sample);
  if (found) return found.mime;
  if (!isText(sample)) return 'application/octet-stream';
  return texts[extname(filename).toLowerCase()] ?? 'text/plain';
}

/** UTF-8 without control characters that no text has; the sample may end within a character. */
function isText(sample: Uint8Array): boolean {
  if (sample.some((byte) => byte < 0x20 && ![0x09, 0x0a, 0x0c, 0x0d, 0x1b].includes(byte))) return false;
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(sample, { stream: true });
    return true;
  } catch {
    // Some other encoding, or no text.
    return false;
  }
}
