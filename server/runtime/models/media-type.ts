/** What kind of file bytes are, told by how they begin: what a sender says of them may be wrong. */

interface Beginning {
  readonly mediaType: string;
  /** Hexadecimal; two dots stand for any byte. */
  readonly pattern: RegExp;
}

/** https://mimesniff.spec.whatwg.org/ and the formats' own descriptions. */
const images: readonly Beginning[] = [
  { mediaType: 'image/png', pattern: /^89504e470d0a1a0a/ },
  { mediaType: 'image/jpeg', pattern: /^ffd8ff/ },
  { mediaType: 'image/webp', pattern: /^52494646.{8}57454250/ },
  { mediaType: 'image/gif', pattern: /^47494638/ },
];

const sounds: readonly Beginning[] = [
  { mediaType: 'audio/wav', pattern: /^52494646.{8}57415645/ },
  { mediaType: 'audio/mpeg', pattern: /^494433|^fff[ab23]/ },
  { mediaType: 'audio/aac', pattern: /^fff[19]/ },
  { mediaType: 'audio/ogg', pattern: /^4f676753/ },
  { mediaType: 'audio/flac', pattern: /^664c6143/ },
  { mediaType: 'audio/mp4', pattern: /^.{8}66747970/ },
  { mediaType: 'audio/webm', pattern: /^1a45dfa3/ },
];

/** The formats that can be told as sounds, for people. */
export const soundFormats = 'WAV, MP3, AAC, Ogg, FLAC, MP4 or WebM';

export function imageTypeOf(bytes: Uint8Array): string | null {
  return typeOf(bytes, images);
}

export function soundTypeOf(bytes: Uint8Array): string | null {
  return typeOf(bytes, sounds);
}

function typeOf(bytes: Uint8Array, known: readonly Beginning[]): string | null {
  const beginning = Buffer.from(bytes.subarray(0, 16)).toString('hex');
  return known.find(({ pattern }) => pattern.test(beginning))?.mediaType ?? null;
}
