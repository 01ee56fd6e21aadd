/** Texts that stay open for whoever asks for their next page, and which of them go. */
import { expect, test } from 'vitest';
import { openedTexts } from './opened-texts.ts';

const documentOf = (text: string) => ({ mediaType: 'text/plain', text, blocks: [], pages: null });

/** Of ten characters each, of which there is room for three. */
function threeTexts() {
  const read: string[] = [];
  const opened = openedTexts(60);
  const open = (id: string) =>
    opened.find(id, async () => {
      read.push(id);
      return documentOf(id.padEnd(10));
    });
  return { opened, open, read };
}

test('the one that nobody has asked for the longest is closed first', async () => {
  const { opened, open, read } = threeTexts();
  for (const id of ['a', 'b', 'c', 'a']) await open(id);
  opened.keep('d', documentOf('d'.repeat(10)));
  for (const id of ['a', 'c', 'd']) await open(id);
  expect(read).toEqual(['a', 'b', 'c']);
  await open('b');
  expect(read).toEqual(['a', 'b', 'c', 'b']);
});

test('one that has no room beside others is told all the same', async () => {
  const { opened, open, read } = threeTexts();
  await open('a');
  const pairs = '🙂'.repeat(8);
  expect(opened.keep('long', documentOf(pairs))).toMatchObject({ text: pairs, characters: 8 });
  await open('a');
  expect(read).toEqual(['a', 'a']);
});

test('where it is kept twice it counts once', async () => {
  const { opened, open, read } = threeTexts();
  for (const id of ['a', 'b']) await open(id);
  for (let time = 0; time < 5; time += 1) opened.keep('c', documentOf('c'.repeat(10)));
  for (const id of ['a', 'b']) await open(id);
  expect(read).toEqual(['a', 'b']);
});

test('what could not be read is read anew for whoever asks next', async () => {
  const { opened } = threeTexts();
  await expect(opened.find('a', () => Promise.reject(new Error('away')))).rejects.toThrow('away');
  expect(await opened.find('a', async () => null)).toBeNull();
  expect(await opened.find('a', async () => documentOf('there'))).toMatchObject({ text: 'there' });
});
