// Small files of every kind that models make: what is answered where the script brings none.

/** One dot, as a picture. */
export const picture = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M/wHwAEBgIApD5fRAAAAABJRU5ErkJggg==',
  'base64',
);

/** A tenth of a second of silence as bare samples: 16 bits, one channel, 24 kHz. */
export const samples = Buffer.alloc(4800);

const frame = (head: number[], length: number) => Buffer.concat([Buffer.from(head), Buffer.alloc(length)]);

/** The beginning of a file is what tells its format; behind it there is silence. */
export const sounds: Readonly<Record<string, { readonly type: string; readonly bytes: Buffer }>> = {
  mp3: { type: 'audio/mpeg', bytes: frame([0xff, 0xfb, 0x90, 0x00], 413) },
  opus: { type: 'audio/ogg', bytes: Buffer.concat([Buffer.from('OggS'), Buffer.alloc(60)]) },
  aac: { type: 'audio/aac', bytes: frame([0xff, 0xf1, 0x50, 0x80], 60) },
  flac: { type: 'audio/flac', bytes: Buffer.concat([Buffer.from('fLaC'), Buffer.alloc(60)]) },
  wav: { type: 'audio/wav', bytes: Buffer.concat([wavHead(samples.length), samples]) },
  pcm: { type: 'audio/pcm', bytes: samples },
};

function wavHead(length: number): Buffer {
  const head = Buffer.alloc(44);
  head.write('RIFF', 0);
  head.writeUInt32LE(36 + length, 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(24_000, 24);
  head.writeUInt32LE(48_000, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write('data', 36);
  head.writeUInt32LE(length, 40);
  return head;
}
