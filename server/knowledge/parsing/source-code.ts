/** Source code: pieces that begin where a line at the margin does, after an empty line or at a definition. */
import { linesOf } from './markdown.ts';
import type { Block } from './parsed-document.ts';

const definition =
  /^(export|default|async|public|private|protected|static|abstract|final|class|interface|enum|struct|trait|impl|type|namespace|module|package|def|fn|func|fun|function|sub|procedure|create|const|let|var|@)\b/i;

/** Languages are not told apart: indentation and empty lines mean the same in most of them. */
export function codeBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  let begin: number | null = null;
  let end = 0;
  let afterBlank = true;
  const close = (): void => {
    if (begin !== null) blocks.push({ kind: 'code', start: begin, end, page: null });
    begin = null;
  };
  for (const line of linesOf(text)) {
    if (line.text.trim() === '') {
      afterBlank = true;
      continue;
    }
    const isAtMargin = /^\S/.test(line.text) && !/^[)\]}]/.test(line.text);
    if (isAtMargin && (afterBlank || definition.test(line.text))) close();
    begin ??= line.start;
    end = line.end;
    afterBlank = false;
  }
  close();
  return blocks;
}
