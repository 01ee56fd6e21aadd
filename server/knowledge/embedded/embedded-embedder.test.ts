/** The embedder of this machine, with its real model: what its vectors say, and that nobody waits, leaks or is lost. */
import { afterAll, describe, expect, test } from 'vitest';
import { modelsDirectory } from '../../test-embedder.ts';
import { createEmbeddedEmbedder, type EmbeddedOptions, mostWaitingCalls } from './embedded-embedder.ts';
import {
  embeddedDimensions,
  embeddedIdentity,
  modelFault,
  modelFolder,
  openedFiles,
} from './pinned-model.ts';

const none = new AbortController().signal;

const open = (options: Partial<EmbeddedOptions> = {}) =>
  createEmbeddedEmbedder({
    identity: embeddedIdentity,
    dimensions: embeddedDimensions,
    files: openedFiles(modelFolder(modelsDirectory)),
    ...options,
  });

const embedder = open();
afterAll(() => embedder.close());

const cosine = (one: Float32Array, other: Float32Array) =>
  one.reduce((sum, value, index) => sum + value * (other[index] ?? Number.NaN), 0);

async function vectorOf(text: string): Promise<Float32Array> {
  const [vector = new Float32Array()] = await embedder.embed([text], none);
  return vector;
}

test('the model of this release is on this machine; make embedder puts it there', async () => {
  expect(await modelFault(modelFolder(modelsDirectory))).toBeNull();
});

describe('a vector', () => {
  // What the same network says whose weights are floats as they were trained.
  test.each([
    ['A cat sits on the mat.', 'A kitten rests on a rug.', 0.665],
    ['How do I reset my password?', 'I forgot my login credentials.', 0.637],
    ['A cat sits on the mat.', 'The stock market fell today.', 0.103],
    ['ΟΔΥΣΣΕΥΣ', 'οδυσσευσ', 1],
    ['ΟΔΥΣΣΕΥΣ', 'οδυσσευς', 0.911],
    ['𠮷野家で食べる', '吉野家で食事', 0.78],
  ])('has the nearness of meaning of "%s" and "%s": %f', async (one, other, expected) => {
    expect(cosine(await vectorOf(one), await vectorOf(other))).toBeCloseTo(expected, 1);
  });

  test.each([
    ['nothing', ''],
    ['spaces', ' \n\t '],
    ['10,000 characters', 'the boundary layer of a flat plate '.repeat(300)],
    ['one word of 10,000 characters', 'x'.repeat(10_000)],
    ['symbols made of several', '👩‍👩‍👧‍👦🎉 🇪🇺'],
    ['signs beyond the basic plane', '𠮷野家で𠀋を食べる'],
    ['half a sign', '\ud83d broken'],
  ])('of %s has its size and the length 1', async (_name, text) => {
    const vector = await vectorOf(text);
    expect(vector).toHaveLength(embeddedDimensions);
    expect(cosine(vector, vector)).toBeCloseTo(1, 5);
  });

  test('says the beginning of a text that is too long, as the model reads it', async () => {
    const beginning = 'the pressure of a supersonic flow around a cone '.repeat(40);
    const [whole, cut] = [
      await vectorOf(beginning),
      await vectorOf(`${beginning} ${'cheese '.repeat(9000)}`),
    ];
    expect(cut).toEqual(whole);
  });

  test('is the same to the last digit, alone and among others', async () => {
    const texts = [
      'heat transfer in slip flow',
      'a short one',
      'wing '.repeat(300),
      'heat transfer in slip flow',
    ];
    const together = await embedder.embed(texts, none);
    for (const [index, text] of texts.entries()) expect(await vectorOf(text)).toEqual(together[index]);
  });
});

describe('the thread', () => {
  test('answers a question while a thousand passages wait, and forgets those that nobody wants any more', async () => {
    const book = new AbortController();
    let passages = 'at work';
    const reading = embedder
      .embed(
        Array(1000).fill('a passage of a long book about the flow of air around a wing '.repeat(8)),
        book.signal,
      )
      .then(() => 'read')
      .catch((error: Error) => error.message)
      .then((end) => {
        passages = end;
      });
    await vectorOf('what is lift?');
    expect(passages).toBe('at work');
    book.abort(new Error('nobody reads on'));
    await reading;
    expect(passages).toBe('nobody reads on');
    await expect(embedder.embed(['too late'], book.signal)).rejects.toThrow('nobody reads on');
    expect(await vectorOf('and after it')).toHaveLength(embeddedDimensions);
  });

  test('is asked for so much at most; what is refused harms nobody, and there is room again afterwards', async () => {
    const crowded = open();
    const crowd = new AbortController();
    const waiting = Array.from({ length: mostWaitingCalls - 1 }, (_, index) =>
      crowded.embed([`number ${index} `.repeat(200)], crowd.signal).catch((error: Error) => error.message),
    );
    const last = crowded.embed(['the last one that has a place'], none);
    expect(crowded.waiting()).toBe(mostWaitingCalls);
    await expect(crowded.embed(['one too many'], none)).rejects.toMatchObject({ code: 'overloaded' });
    crowd.abort(new Error('gone'));
    expect(await last).toHaveLength(1);
    expect(await Promise.all(waiting)).toContain('gone');
    expect(crowded.waiting()).toBe(0);
    expect(await crowded.embed(['there is room'], none)).toHaveLength(1);
    await crowded.close();
  });

  test('that dies is started again for the others, and is not asked for ever for what it dies of', async () => {
    const dying = open({ program: new URL('./test-dying-thread.ts', import.meta.url) });
    await expect(dying.embed(['die'], none)).rejects.toThrow('ended');
    expect(await dying.embed(['alive again'], none)).toHaveLength(1);
    await dying.close();
  });

  test('is let go when nobody asks, and comes back', async () => {
    const resting = open({ idleMs: 1 });
    expect(resting.loaded()).toBe(false);
    const [before] = await resting.embed(['a word'], none);
    await expect.poll(() => resting.loaded()).toBe(false);
    expect(await resting.embed(['a word'], none)).toEqual([before]);
    await resting.close();
    await expect(resting.embed(['a word'], none)).rejects.toThrow('closed');
  });

  test('says what is wrong where the model cannot be read', async () => {
    const broken = open({ files: { model: import.meta.filename, tokenizer: import.meta.filename } });
    await expect(broken.embed(['a word'], none)).rejects.toThrow(/protobuf|model/i);
    await broken.close();
  });
});
