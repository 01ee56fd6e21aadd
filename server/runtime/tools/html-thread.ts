// Makes Markdown or plain text of pages, one after the other, in a thread: only a thread can be stopped in the middle of a bad one.
import { parentPort } from 'node:worker_threads';
import TurndownService from 'turndown';
import type { Converted, HtmlPage } from './html-conversion.ts';

/** What is used of the elements of a page; the platform of the server has no name for them. */
interface PageElement {
  readonly nodeName: string;
  readonly parentElement: PageElement | null;
  readonly previousElementSibling: PageElement | null;
  readonly childNodes: { readonly length: number };
  getAttribute(name: string): string | null;
  hasAttribute(name: string): boolean;
}

/** What no reader of a page sees, or could use. */
const unseen = new Set([
  ...[
    'HEAD',
    'SCRIPT',
    'STYLE',
    'NOSCRIPT',
    'TEMPLATE',
    'IFRAME',
    'OBJECT',
    'EMBED',
    'SVG',
    'CANVAS',
    'AUDIO',
    'VIDEO',
  ],
  ...['SELECT', 'BUTTON', 'INPUT', 'TEXTAREA', 'DIALOG', 'MATH'],
]);

function convert({ html, base, format }: HtmlPage): string {
  const service = format === 'markdown' ? markdownService(baseOf(html, base)) : textService();
  service.addRule('unseen', { filter: isUnseen, replacement: () => '' });
  const title = /<title[^>]*>([^<]{1,500})<\/title>/i.exec(html)?.[1];
  const heading = title === undefined ? '' : service.turndown(`<h1>${title}</h1>`);
  const body = service.turndown(html).trim();
  return heading && !body.startsWith(heading) ? `${heading}\n\n${body}` : body;
}

function markdownService(base: string): TurndownService {
  const service = new TurndownService({
    headingStyle: 'atx',
    codeBlockStyle: 'fenced',
    bulletListMarker: '-',
  });
  service.addRule('link', {
    filter: 'a',
    replacement: (content, node: PageElement) => link(content, absolute(node.getAttribute('href'), base)),
  });
  service.addRule('image', {
    filter: 'img',
    // Named, not shown: whoever displays this must not be made to fetch it.
    replacement: (_content, node: PageElement) => {
      const name = node.getAttribute('alt')?.trim();
      return name ? `[image: ${name.replace(/\s+/g, ' ')}]` : '';
    },
  });
  addTableRules(service);
  return service;
}

function textService(): TurndownService {
  // `as`: the declared options do not list the rules, of which text needs none.
  const service = new TurndownService({ rules: {} } as TurndownService.Options);
  service.escape = (text) => text;
  service.addRule('break', { filter: 'br', replacement: () => '\n' });
  service.addRule('item', { filter: 'li', replacement: (content) => `${content.trim()}\n` });
  service.addRule('cell', { filter: ['td', 'th'], replacement: (content) => `${content.trim()}\t` });
  service.addRule('row', { filter: 'tr', replacement: (content) => `${content.trimEnd()}\n` });
  return service;
}

function addTableRules(service: TurndownService): void {
  service.addRule('cell', {
    filter: ['td', 'th'],
    replacement: (content) =>
      ` ${content
        .trim()
        .replace(/\s*\n\s*/g, ' ')
        .replaceAll('|', '\\|')} |`,
  });
  service.addRule('row', {
    filter: 'tr',
    replacement: (content, node: PageElement) => {
      const cells = node.childNodes.length === 0 ? 0 : content.split(/(?<!\\)\|/).length - 1;
      const first = !node.previousElementSibling && isFirstSection(node.parentElement);
      return `|${content}\n${first ? `|${' --- |'.repeat(cells)}\n` : ''}`;
    },
  });
  service.addRule('section', { filter: ['thead', 'tbody', 'tfoot'], replacement: (content) => content });
  service.addRule('table', { filter: 'table', replacement: (content) => `\n\n${content.trim()}\n\n` });
}

function isFirstSection(parent: PageElement | null): boolean {
  return (
    parent?.nodeName === 'TABLE' ||
    !parent?.previousElementSibling ||
    parent.previousElementSibling.nodeName === 'CAPTION'
  );
}

function link(content: string, href: string | null): string {
  const text = content.trim();
  if (text === '') return '';
  return href === null
    ? content
    : `[${text.replace(/\s*\n\s*/g, ' ')}](${href.replace(/[()\s]/g, encodeURIComponent)})`;
}

/** Null for what leads nowhere on the web. */
function absolute(href: string | null, base: string): string | null {
  if (href === null || href.startsWith('#') || !URL.canParse(href, base)) return null;
  const { protocol, href: whole } = new URL(href, base);
  return /^(https?|mailto):$/.test(protocol) ? whole : null;
}

/** A page may name another place that its links start from. */
function baseOf(html: string, url: string): string {
  const named = /<base[^>]+href\s*=\s*["']?([^"'\s>]+)/i.exec(html)?.[1];
  return named !== undefined && URL.canParse(named, url) ? new URL(named, url).href : url;
}

function isUnseen(node: PageElement): boolean {
  if (unseen.has(node.nodeName.toUpperCase())) return true;
  if (node.hasAttribute('hidden') || node.getAttribute('aria-hidden') === 'true') return true;
  return /(^|;)\s*(display\s*:\s*none|visibility\s*:\s*hidden)/i.test(node.getAttribute('style') ?? '');
}

function answerFor(page: HtmlPage): Converted {
  try {
    return { text: convert(page) };
  } catch (error) {
    if (error instanceof RangeError) return { failed: 'its elements lie too deep in one another' };
    throw error;
  }
}

parentPort?.on('message', (page: HtmlPage) => parentPort?.postMessage(answerFor(page)));
