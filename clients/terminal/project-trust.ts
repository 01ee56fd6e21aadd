/** Trust in the settings files of a project: what there is to trust, how a person sees it, and what they answer. */
import type { LoadedSettings, Review, SettingsLayer } from '../../server/config/config.ts';
import { askChoice, askYesNo } from './ask.ts';
import { displayPath, paint } from './output.ts';

/** A file of the project with sections that count only when it is trusted. */
export interface ReviewedFile {
  readonly layer: SettingsLayer;
  readonly review: Review;
}

/** Every such file, as it was read; the trusted ones too. Throws TrustStoreError where trust cannot be read. */
export async function reviewProject({ places, layers }: LoadedSettings): Promise<readonly ReviewedFile[]> {
  const { readTrust, reviewLayer } = await import('../../server/config/config.ts');
  const trust = await readTrust(places.dataHome, places.projectRoot);
  const ofProject = layers.filter(({ scope }) => scope !== 'global');
  const reviewed = await Promise.all(
    ofProject.map(async (layer) => {
      const previous = layer.trusted ? null : (trust.entry(layer.realPath)?.review ?? null);
      return { layer, review: await reviewLayer(layer, places, previous) };
    }),
  );
  return reviewed.filter(({ review }) => review.sections.length > 0);
}

/** Shows what a file would run or reach; of one that was trusted before, what has changed. */
export function showReview({ layer, review }: ReviewedFile, stream: NodeJS.WriteStream): void {
  const file = paint('bold', displayPath(layer.file, stream), stream);
  stream.write(`${file}: ${stateOf(layer, review, stream)}\n\n`);
  const lines = review.diff ? diffLines(review.diff, stream) : sectionLines(review, stream);
  stream.write(`${lines.map((line) => `  ${line}`.trimEnd()).join('\n')}\n\n`);
}

/** Asks which of the files, as they were shown, shall be trusted; null where there is nobody to ask. */
export async function askTrust(files: readonly ReviewedFile[]): Promise<readonly ReviewedFile[] | null> {
  const [only] = files;
  if (only && files.length === 1) return keep(files, await askYesNo(questionOf(only)));
  const choices = [
    { answer: 'yes', meaning: 'yes' },
    { answer: 'no', meaning: 'no' },
    { answer: 'each', meaning: 'ask for each file' },
  ] as const;
  const answer = await askChoice(`Trust these ${files.length} files, as shown?`, choices, 'no');
  if (answer !== 'each') return keep(files, answer && answer === 'yes');
  const trusted: ReviewedFile[] = [];
  for (const file of files) if (await askYesNo(questionOf(file))) trusted.push(file);
  return trusted;
}

/** Trusts the files with exactly the bytes that were shown. */
export async function recordReviewed(
  { places }: LoadedSettings,
  files: readonly ReviewedFile[],
): Promise<void> {
  const { recordTrust } = await import('../../server/config/config.ts');
  const trusted = files.map(({ layer, review }) => ({
    realPath: layer.realPath,
    sha256: layer.sha256,
    review: review.text,
  }));
  await recordTrust(places.dataHome, places.projectRoot, trusted, new Date());
}

function keep(files: readonly ReviewedFile[], answer: boolean | null): readonly ReviewedFile[] | null {
  if (answer === null) return null;
  return answer ? files : [];
}

function questionOf({ layer }: ReviewedFile): string {
  return `Trust ${displayPath(layer.file, process.stderr)}, as shown?`;
}

function stateOf(layer: SettingsLayer, review: Review, stream: NodeJS.WriteStream): string {
  if (layer.trusted) return `${paint('green', 'trusted', stream)}. It may run or reach:`;
  if (review.diff === null) return `${paint('yellow', 'not trusted', stream)}. It would run or reach:`;
  const changed = paint('yellow', 'changed since it was trusted', stream);
  return review.diff === ''
    ? `${changed}, but not in what it would run or reach:`
    : `${changed}. What is different:`;
}

function sectionLines({ sections }: Review, stream: NodeJS.WriteStream): readonly string[] {
  return sections.flatMap(({ pointer, place, lines }, index) => {
    const where = place ? paint('dim', `  line ${place.line}`, stream) : '';
    const title = `${paint('cyan', pointer.slice(1).replaceAll('/', '.'), stream)}${where}`;
    return [...(index > 0 ? [''] : []), title, ...lines.map((line) => `  ${line}`)];
  });
}

function diffLines(diff: string, stream: NodeJS.WriteStream): readonly string[] {
  return diff
    .trimEnd()
    .split('\n')
    .map((line) => {
      if (line.startsWith('+')) return paint('green', line, stream);
      return line.startsWith('-') ? paint('red', line, stream) : line;
    });
}
