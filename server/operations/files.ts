/** Files that people upload, and get back. */
import { Readable } from 'node:stream';
import type { StoredFile } from '../contract/api.ts';
import { type Call, type Handler, isCurrent } from '../handler.ts';
import { Problem } from '../problem.ts';
import { quotaNotice } from './quota-notice.ts';
import { requireStillValid } from './still-valid.ts';

export const listFiles: Handler<'listFiles'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.files.list(principal, query),
});

export const uploadFile: Handler<'uploadFile'> = async ({ principal, body, onceReceived }, { store }) => {
  const { file: upload, workspace_id, filename = 'unnamed', purpose = 'general', metadata = {} } = body;
  const apiKeyId = principal.credential === 'api_key' ? principal.credentialId : null;
  const received = await store.files.receive(principal, {
    workspaceId: workspace_id,
    ...{ filename, purpose, metadata, apiKeyId },
    mostBytes: upload.mostBytes,
    content: upload.content,
  });
  try {
    return await onceReceived(received.sha256, async () => {
      const { file, etag } = await received.keep();
      const notices = quotaNotice(received.notices);
      const headers = { Location: `/api/v1/files/${file.id}`, ETag: etag, ...notices };
      return { status: 201, headers, body: file };
    });
  } finally {
    await received.leave();
  }
};

export const getFile: Handler<'getFile'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.files.find(principal, path.file_id);
  if (!found) throw missing();
  if (isCurrent(headers['If-None-Match'], found.etag)) return { status: 304, headers: { ETag: found.etag } };
  return { status: 200, headers: { ETag: found.etag }, body: found.file };
};

export const updateFile: Handler<'updateFile'> = async ({ principal, path, headers, body }, { store }) => {
  const { file, etag } = await store.files.update(principal, path.file_id, body, headers['If-Match']);
  return { status: 200, headers: { ETag: etag }, body: file };
};

export const deleteFile: Handler<'deleteFile'> = async ({ principal, path, query, headers }, { store }) => {
  await store.files.delete(principal, path.file_id, query.force ?? false, headers['If-Match']);
  return { status: 204 };
};

export const downloadFile: Handler<'downloadFile'> = async (
  { principal, path, headers, signal, headOnly },
  { store },
) => {
  const found = await store.files.find(principal, path.file_id);
  if (!found) throw missing();
  const { file } = found;
  const ETag = `"${file.sha256}"`;
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  const range = rangeOf(headers, ETag, file.size);
  const about = {
    ETag,
    'Accept-Ranges': 'bytes' as const,
    'Content-Disposition': dispositionOf(file),
    'Content-Length': String(range ? range.last - range.first + 1 : file.size),
  };
  const type = 'application/octet-stream';
  if (headOnly) await store.files.requireBytes(file.id, signal);
  const body = headOnly ? Readable.from([]) : await store.files.read(file.id, range ?? undefined, signal);
  if (!range) return { status: 200, headers: about, type, body };
  const within = { 'Content-Range': `bytes ${range.first}-${range.last}/${file.size}` };
  return { status: 206, headers: { ...about, ...within }, type, body };
};

export const getFileText: Handler<'getFileText'> = async (
  { principal, path, query },
  { store, fileTexts },
) => {
  const { file_id } = path;
  if (!(await store.files.find(principal, file_id))) throw missing();
  const { offset = 0, limit = 100_000, wait_seconds = 10 } = query;
  const found = await fileTexts.find(file_id, { offset, limit, waitMs: wait_seconds * 1000 });
  if (!found) return { status: 202, headers: { 'Retry-After': '1' }, body: { file_id, status: 'reading' } };
  const { mediaType: media_type, text, characters, pages } = found;
  const next = found.offset + limit;
  const next_offset = next < characters ? next : null;
  return {
    status: 200,
    body: {
      ...{ file_id, status: 'ready', media_type, characters, offset: found.offset, text, next_offset },
      pages: pages && [...pages],
    },
  };
};

export const createUpload: Handler<'createUpload'> = async ({ principal, body }, { store }) => {
  const apiKeyId = principal.credential === 'api_key' ? principal.credentialId : null;
  const { upload, notices } = await store.fileUploads.create(principal, body, apiKeyId);
  const headers = { Location: `/api/v1/files/uploads/${upload.id}`, ...quotaNotice(notices) };
  return { status: 201, headers, body: upload };
};

export const appendUpload: Handler<'appendUpload'> = async (
  { principal, path, headers, body },
  { store },
) => {
  const appended = { offset: headers['Upload-Offset'], mostBytes: body.mostBytes, content: body.content };
  const received = await store.fileUploads.append(principal, path.upload_id, appended);
  return { status: 204, headers: { 'Upload-Offset': String(received) } };
};

export const completeUpload: Handler<'completeUpload'> = async ({ principal, path }, services) => {
  // Its bytes are read once more, which takes long where they are many.
  const confirm = () => requireStillValid(principal, services);
  const { file, etag } = await services.store.fileUploads.complete(principal, path.upload_id, confirm);
  return { status: 201, headers: { Location: `/api/v1/files/${file.id}`, ETag: etag }, body: file };
};

export const abortUpload: Handler<'abortUpload'> = async ({ principal, path }, { store }) => {
  await store.fileUploads.abort(principal, path.upload_id);
  return { status: 204 };
};

type DownloadHeaders = Call<'downloadFile'>['headers'];

/**
 * The one range that is asked for; null where the whole file is the answer, as to several ranges and to what is no
 * range of bytes (RFC 9110 §14.2).
 */
function rangeOf(headers: DownloadHeaders, etag: string, size: number) {
  const { Range: asked, 'If-Range': condition } = headers;
  if (asked === undefined || (condition !== undefined && condition.trim() !== etag)) return null;
  const [, from = '', to = ''] = /^\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(asked) ?? [];
  if (from === '' && to === '') return null;
  if (from !== '' && to !== '' && Number(from) > Number(to)) return null;
  // Without a beginning it is so many bytes of the end.
  const first = from === '' ? Math.max(size - Number(to), 0) : Number(from);
  const last = from === '' || to === '' ? size - 1 : Math.min(Number(to), size - 1);
  if (first >= size || (from === '' && Number(to) === 0)) throw notSatisfiable(size);
  return { first, last };
}

function notSatisfiable(size: number): Problem {
  return new Problem('range_not_satisfiable', `The file has ${size} bytes; ask for some of them.`, {
    headers: { 'Content-Range': `bytes */${size}` },
  });
}

/** For programs that read ASCII only, and then as it is (RFC 6266, RFC 8187). */
function dispositionOf({ filename }: StoredFile): string {
  const plain = filename.normalize('NFKD').replaceAll(/[^\w. -]/g, '_');
  const exact = encodeURIComponent(filename.toWellFormed()).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${exact}`;
}

function missing(): Problem {
  return new Problem('not_found', 'No file has this id, or it is not yours.');
}
