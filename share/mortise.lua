---@meta mortise
-- What scripts of mortise can call, for the Lua language server. Made by tools/faces from the descriptions in stdlib: change those, not this file.

---@type mortise.mortise
mortise = {}

---@class mortise.mortise.connect_options
---@field store? string # http(s)://HOST[:PORT][,...], cloud:ID or sqlite:FILE
---@field namespace? string # an independent hierarchy of locks (default)
---@field table? string # the lock table on a server (mortise-locks)
---@field lease? number|string # how long locks outlive a process that died (1m)
---@field margin? number|string # how long before its end a lease counts as lost; at most a third of it (a tenth of the lease, at most 1s)
---@field wait? number|string # how long to wait for a lock; 0: try once (30s)
---@field no_hints? boolean # tell no process of this machine that a lock is free, and hear of none (false)
---@field timeout? number|string # for one request (30s)
---@field connect_timeout? number|string # for one connection (5s)
---@field answer_max? integer|string # a larger answer is refused (64MiB)
---@field user? string # for basic authentication
---@field password? string # the user's password
---@field password_file? string # file with the user's password
---@field api_key? string # an API key, encoded
---@field api_key_file? string # file with an API key, encoded
---@field bearer? string # a bearer token
---@field bearer_file? string # file with a bearer token
---@field api_key_command? string # a command that prints an API key
---@field bearer_command? string # a command that prints a bearer token
---@field aws? boolean # sign requests, for Amazon's OpenSearch Service (false)
---@field aws_region? string # its region, where the store's name does not say it
---@field ca_file? string # certificates to trust, PEM (the system's)
---@field cert_file? string # the client's certificate, PEM
---@field key_file? string # the certificate's key, PEM, without a pass phrase
---@field insecure? boolean # do not check the server's certificate (false)
---@field proxy? string # http(s)://HOST:PORT, or none (the environment's)
---@field unix_socket? string # connect to this socket, whatever the store's host is
---@field sniff? boolean # ask the cluster for its nodes, and use those (false)
---@field program? string # shown to whoever is kept waiting
---@field script? string # the same
---@field job? string # the same

---@class mortise.mortise.map_options
---@field limit? integer # how many run at the same time (8)

---@class mortise.mortise.up_options
---@field dir string # the folder of the scripts
---@field to? integer # run none of a higher version
---@field dry_run? boolean # only say what would be run: takes no lock, runs and writes nothing
---@field status? boolean # only say what has become of each version: takes no lock, writes nothing
---@field out_of_order? boolean # run also those whose version is lower than one that was run
---@field repair? boolean # run nothing; accept the files as they are: changed and missing ones, and a job's complaints
---@field baseline? integer # run nothing; note those up to N as run, in a namespace where none was
---@field wait? number|string # how long to wait for another `up`

---@class mortise.client.get_options
---@field routing? string # the document's routing

---@class mortise.client.mget_options
---@field routing? string # the document's routing

---@class mortise.client.create_options
---@field routing? string # the document's routing
---@field refresh? boolean # return when searches see it
---@field if_seq_no? integer # only if it still has this version, with if_term
---@field if_term? integer # the version's primary term
---@field pipeline? boolean # false: past the ingest pipelines (true)
---@field unguarded? boolean # true: not as a write of the lock that this task holds (false)

---@class mortise.client.index_options
---@field routing? string # the document's routing
---@field refresh? boolean # return when searches see it
---@field if_seq_no? integer # only if it still has this version, with if_term
---@field if_term? integer # the version's primary term
---@field pipeline? boolean # false: past the ingest pipelines (true)
---@field unguarded? boolean # true: not as a write of the lock that this task holds (false)

---@class mortise.client.update_options
---@field routing? string # the document's routing
---@field refresh? boolean # return when searches see it
---@field retries? integer # when someone else changes it meanwhile (8)
---@field unguarded? boolean # true: not as a write of the lock that this task holds (false)

---@class mortise.client.delete_options
---@field routing? string # the document's routing
---@field refresh? boolean # return when searches see it
---@field if_seq_no? integer # only if it still has this version, with if_term
---@field if_term? integer # the version's primary term
---@field pipeline? boolean # false: past the ingest pipelines (true)
---@field unguarded? boolean # true: not as a write of the lock that this task holds (false)

---@class mortise.client.scan_options
---@field query? table|string # Query DSL; all documents without it
---@field page? integer # documents a page and slice (1000)
---@field slices? integer # read side by side; the store decides
---@field source? boolean # false: ids and versions only (true)

---@class mortise.client.bulk_options
---@field refresh? boolean # return when searches see it
---@field unguarded? boolean # true: not as a write of the lock that this task holds (false)

---@class mortise.client.rename_options
---@field index string # index or alias
---@field from string # the path that is renamed, with all below it
---@field to string # what it becomes
---@field field? string|string[] # the field that holds paths, or a list of them (path)
---@field ids? boolean # an `_id` at or below `from` becomes one below `to`, too
---@field merge? boolean # there may be documents below `to` already
---@field allow_empty? boolean # there may be none below `from`
---@field name? string # the beginning of its job's id (rename)
---@field lock? table # a lock that covers both: then it is no job
---@field wait? number|string # how long to wait for the locks
---@field on_orphan? "fail"|"resume"|"rollback" # if a job that stands half-done is in the way: raise orphaned_job, or go on with it, or undo it (fail)
---@field query? table|string # one more query that documents must match
---@field on_progress? function # called with the numbers done and in all
---@field wait_for_writes? number|string # how long it waits while the store takes no writes: a block, a full disk, a shard that is away (5m)
---@field strategy? "client"|"server"|"auto" # of its job: who makes the change (client)
---@field max_rejected? any # how many documents may be set aside, or "1%" of them, before its job stands (0)
---@field journal? boolean # of its job; false: none, if none is needed (true)
---@field page? integer # documents a page of the scan (1000)
---@field slices? integer # of the scan
---@field in_flight? integer # write requests at the same time
---@field passes? integer # at most
---@field strength? "cas"|"stamp" # as lock:bulk's (cas)
---@field stamp_field? string # as lock:bulk's

---@class mortise.client.job_options
---@field name? string # the beginning of its id; needed unless `id` is given
---@field id? string # its id, if it is not to be made from the name
---@field once? boolean # its id is its name: a second run of a finished one does nothing
---@field index string # index or alias
---@field query? table|string # Query DSL that documents must match, of those that `lock` names
---@field field? any # of a lock on paths: the field with the documents' paths; false: those anywhere, as `query` says (path)
---@field change? any # a list of transforms, or a function of each document
---@field rename? table # instead of it: {from=, to=, field=}, as mortise.rename's
---@field merge? boolean # of a rename: there may be documents below `to` already
---@field allow_empty? boolean # of a rename: there may be none below `from`
---@field lock? any # a path, a list of them, or what acquire takes; a rename's own paths
---@field wait? number|string # how long to wait for the lock
---@field on_orphan? "fail"|"resume"|"rollback" # if a job that stands half-done is in the way: raise orphaned_job, or go on with it, or undo it (fail)
---@field yield_every? number|string # of a list: how often others are let in who wait for one of its paths, between its batches
---@field on_progress? function # called with the numbers done and in all
---@field max_load? table # {status=, disk=, refused=}: it pauses by itself meanwhile
---@field wait_for_writes? number|string # how long it waits while the store takes no writes: a block, a full disk, a shard that is away (5m)
---@field max_rejected? any # how many documents may be set aside, or "1%" of them: more, and it stops and stands (none; 0 for a rename)
---@field keep? number|string # how long it can be undone at least once it is over; then whoever runs a job next removes it (7d)
---@field strategy? "client"|"server"|"auto" # who makes the change: this process, the server by itself, or whichever is likely to be faster (client)
---@field journal? boolean # false: of a rename, none where renaming back undoes it, which takes along what others put there (true)
---@field rate? integer # documents a second, at most
---@field batch? integer # documents in a batch; else it adapts to the store
---@field slices? integer # of the scan
---@field concurrency? integer # batches at the same time; else it adapts
---@field passes? integer # at most
---@field tune? boolean # its index is not refreshed meanwhile; what was set is put back at its end
---@field on_start? function # on_start(job, {matched=, beside=}), before anything is written
---@field on_batch? function # on_batch(job, {done=, all=, ...}) as batches are written
---@field on_done? function # on_done(job, result), still under its lock
---@field on_error? function # on_error(job, err)
---@field verify? any # verify(view) of each document once it is done; true: none is left
---@field verify_query? table|string # which; a rename's new tree, or `query`
---@field verify_sample? integer # at most so many

---@class mortise.client.migrate_options
---@field id? string # of its job; else it is made from the names
---@field from string # the index whose documents are copied, or its alias
---@field to string # the new index, which is made
---@field to_store? any # where `to` is, if elsewhere: a client, a URL, or a profile of the configuration file
---@field alias? string # the clients' alias, which is moved from the one to the other
---@field settings? table # laid over the settings of the source
---@field mappings? table # laid over the mappings of the source
---@field given? boolean # true: the new index was made by hand, and has no documents
---@field change? any # a list of transforms, or a function that is called with each document: what they make is copied
---@field keep_old_in_step? boolean # true: once the alias was moved, the old index follows the new one: there is a way back
---@field change_back? any # with both: as `change`, what the old index is to have of a document of the new one
---@field lock? any # paths, or what acquire takes: locked while writes are blocked
---@field wait? number|string # how long to wait for locks
---@field cutover? "auto"|"manual" # manual: it stays a step behind until `mortise jobs cutover ID` (auto, elsewhere manual)
---@field max_pause? number|string # how long writes may be refused; if that does not suffice, it tries again later (10s)
---@field verify? "counts"|"sample"|"full" # before the alias is moved: compares counts, and contents of some documents, or of all (counts)
---@field max_rejected? integer # with more documents set aside it does not cut over (0)
---@field rate? integer # documents a second, at most
---@field max_load? table # {status=, disk=, refused=}: it pauses by itself meanwhile
---@field wait_for_writes? number|string # how long it waits while the store takes no writes: a block, a full disk, a shard that is away (5m)
---@field keep? number|string # how long its job is kept once it is finished (7d)
---@field on_progress? function # called with the numbers done and in all

---@class mortise.client.get_job_options
---@field wait? number|string # how long to wait for the lock
---@field wait_for_writes? number|string # how long it waits while the store takes no writes: a block, a full disk, a shard that is away (5m)
---@field on_orphan? "fail"|"resume"|"rollback" # if a job that stands half-done is in the way: raise orphaned_job, or go on with it, or undo it (fail)
---@field max_rejected? any # another one for its resume
---@field on_progress? function # called with the numbers done and in all
---@field on_start? function # on_start(job, {matched=, beside=}), before anything is written
---@field on_batch? function # on_batch(job, {done=, all=, ...}) as batches are written
---@field on_done? function # on_done(job, result), still under its lock
---@field on_error? function # on_error(job, err)
---@field verify? any # verify(view) of each document once it is done; true: none is left
---@field verify_query? table|string # which; a rename's new tree, or `query`
---@field verify_sample? integer # at most so many

---@class mortise.client.with_tree_lock_options
---@field mode? "shared"|"SIX"|"exclusive" # shared: others may share it; SIX: read all, to change some under locks below (exclusive)
---@field wait? number|string # how long to wait; 0: try once
---@field on_orphan? "fail"|"resume"|"rollback" # if a job that stands half-done is in the way: raise orphaned_job, or go on with it, or undo it (fail)

---@class mortise.client.with_document_locks_options
---@field mode? "shared"|"SIX"|"exclusive" # shared: others may share it; SIX: read all, to change some under locks below (exclusive)
---@field wait? number|string # how long to wait; 0: try once
---@field on_orphan? "fail"|"resume"|"rollback" # if a job that stands half-done is in the way: raise orphaned_job, or go on with it, or undo it (fail)

---@class mortise.client.with_lock_options
---@field mode? "shared"|"SIX"|"exclusive" # shared: others may share it; SIX: read all, to change some under locks below (exclusive)
---@field wait? number|string # how long to wait; 0: try once
---@field on_orphan? "fail"|"resume"|"rollback" # if a job that stands half-done is in the way: raise orphaned_job, or go on with it, or undo it (fail)

---@class mortise.client.with_global_lock_options
---@field mode? "shared"|"SIX"|"exclusive" # shared: others may share it; SIX: read all, to change some under locks below (exclusive)
---@field wait? number|string # how long to wait; 0: try once
---@field on_orphan? "fail"|"resume"|"rollback" # if a job that stands half-done is in the way: raise orphaned_job, or go on with it, or undo it (fail)

---@class mortise.client.acquire_options
---@field tree? any # a path or a list of them, each with all below it
---@field document? string # an index; with `ids`
---@field ids? table # ids of documents
---@field named? table # {category, name}
---@field global? boolean # true: everything
---@field mode? "shared"|"SIX"|"exclusive" # shared: others may share it; SIX: read all, to change some under locks below (exclusive)
---@field wait? number|string # how long to wait; 0: try once
---@field on_orphan? "fail"|"resume"|"rollback" # if a job that stands half-done is in the way: raise orphaned_job, or go on with it, or undo it (fail)

---@class mortise.client.try_lock_options
---@field tree? any # a path or a list of them, each with all below it
---@field document? string # an index; with `ids`
---@field ids? table # ids of documents
---@field named? table # {category, name}
---@field global? boolean # true: everything
---@field mode? "shared"|"SIX"|"exclusive" # shared: others may share it; SIX: read all, to change some under locks below (exclusive)
---@field wait? number|string # how long to wait; 0: try once
---@field on_orphan? "fail"|"resume"|"rollback" # if a job that stands half-done is in the way: raise orphaned_job, or go on with it, or undo it (fail)

---@class mortise.client.init_options
---@field print? boolean # true: send nothing, give the requests as text
---@field stripes? integer # keep the locks of / and of each path directly below it in so many documents

---@class mortise.lock.upgrade_options
---@field mode? "shared"|"SIX"|"exclusive" # SIX, or exclusive (exclusive)
---@field wait? number|string # how long to wait; the client's default; 0: try once

---@class mortise.lock.downgrade_options
---@field mode? "shared"|"SIX"|"exclusive" # shared, or SIX (shared)

---@class mortise.lock.bulk_options
---@field batch? integer # items that are gathered before they are sent (4000)
---@field strength? "cas"|"stamp"|"none" # stamp: also put the lock's fence into each document, and change none with a later one; none: compare nothing that names no version (cas)
---@field stamp_field? string # the field of the stamp; mortise_stamp
---@field bytes? integer|string # bytes that are gathered before they are sent (8388608)

---@class mortise.lock.scan_options
---@field query? table|string # Query DSL; all documents without it
---@field page? integer # documents a page and slice (1000)
---@field slices? integer # read side by side; the store decides
---@field source? boolean # false: ids and versions only (true)

---@class mortise.job.rollback_options
---@field others? integer # of a rename without a journal: how many documents that are not the job's may be renamed along

---@class mortise.job.throttle_options
---@field rate? integer # documents a second, at most; 0: no limit
---@field batch? integer # documents a batch, at most; 0: no limit
---@field concurrency? integer # batches at the same time, at most; 0: no limit

---@class mortise.migration.finish_options
---@field delete? boolean # true: the old index is deleted

---@class mortise.writer.finish_options
---@field partial? boolean # true: do not raise for single items (false)

--- the module
---@class mortise.mortise
---@field null any # JSON's null
---@field version any # the version, as text
local module = {}

--- a client of your own: another session, other locks
---@param options mortise.mortise.connect_options
function module.connect(options) end

--- the default client, whose functions the module has too
function module.client() end

--- runs fn beside this; gives a task
---@param fn function
---@param ... any
function module.spawn(fn, ...) end

--- fn(value, index) for each, several at the same time; the results
---@param list table
---@param fn function
---@param options? mortise.mortise.map_options
function module.map(list, fn, options) end

--- runs a folder's versioned scripts that have not been run
---@param options mortise.mortise.up_options
function module.up(options) end

--- waits while other tasks run
---@param time number|string
function module.sleep(time) end

--- seconds since 1970, by this machine's clock
function module.now() end

--- "1m30s" as 90.0
---@param time number|string
function module.seconds(time) end

--- a view over JSON text
---@param text string
---@param about? any
function module.view(text, about) end

--- the JSON text of a table, view or value
---@param value any
function module.json(value) end

--- marks a table as an array, so that it may be empty
---@param table any
function module.array(table) end

--- marks a table as an object, so that it may be empty
---@param table any
function module.object(table) end

--- returned by a job's function: the document is set aside
---@param reason any
function module.reject(reason) end

--- a job's function that is not trusted, in a state of its own
---@param code any
---@param options any
function module.sandboxed(code, options) end

--- the value as Lua that can be pasted back
---@param value any
---@param options? any
function module.format(value, options) end

--- what this process has counted, as Prometheus' text
function module.metrics() end

--- is it an error object of mortise?
---@param value any
function module.is_error(value) end

--- a client; its functions are also the module's
---@class mortise.client
local client = {}

--- the document as it is now, or nil
---@param index string
---@param id string
---@param options? mortise.client.get_options
function client:get(index, id, options) end

--- the document as it is now, or nil
---@param index string
---@param id string
---@param options? mortise.client.get_options
function module.get(index, id, options) end

--- a list of documents, false for what is not there
---@param index string
---@param ids string[]|table
---@param options? mortise.client.mget_options
function client:mget(index, ids, options) end

--- a list of documents, false for what is not there
---@param index string
---@param ids string[]|table
---@param options? mortise.client.mget_options
function module.mget(index, ids, options) end

--- writes a document; conflict if it is there
---@param index string
---@param id string
---@param source any
---@param options? mortise.client.create_options
function client:create(index, id, source, options) end

--- writes a document; conflict if it is there
---@param index string
---@param id string
---@param source any
---@param options? mortise.client.create_options
function module.create(index, id, source, options) end

--- writes a document, whatever is there
---@param index string
---@param id string
---@param source any
---@param options? mortise.client.index_options
function client:index(index, id, source, options) end

--- writes a document, whatever is there
---@param index string
---@param id string
---@param source any
---@param options? mortise.client.index_options
function module.index(index, id, source, options) end

--- changes a document, by a table or a function of it
---@param index string
---@param id string
---@param change any
---@param options? mortise.client.update_options
function client:update(index, id, change, options) end

--- changes a document, by a table or a function of it
---@param index string
---@param id string
---@param change any
---@param options? mortise.client.update_options
function module.update(index, id, change, options) end

--- removes a document; not_found if it is not there
---@param index string
---@param id string
---@param options? mortise.client.delete_options
function client:delete(index, id, options) end

--- removes a document; not_found if it is not there
---@param index string
---@param id string
---@param options? mortise.client.delete_options
function module.delete(index, id, options) end

--- how many documents match, exactly
---@param index string
---@param query? table|string
function client:count(index, query) end

--- how many documents match, exactly
---@param index string
---@param query? table|string
function module.count(index, query) end

--- the server's answer, as a table
---@param index string
---@param body any
function client:search(index, body) end

--- the server's answer, as a table
---@param index string
---@param body any
function module.search(index, body) end

--- every document that matches, once; for `for`
---@param index string
---@param options? mortise.client.scan_options
function client:scan(index, options) end

--- every document that matches, once; for `for`
---@param index string
---@param options? mortise.client.scan_options
function module.scan(index, options) end

--- what was written becomes visible to count, search and scan
---@param index string
function client:refresh(index) end

--- what was written becomes visible to count, search and scan
---@param index string
function module.refresh(index) end

--- many writes in one request; a result for each
---@param index string
---@param items table[]
---@param options? mortise.client.bulk_options
function client:bulk(index, items, options) end

--- many writes in one request; a result for each
---@param index string
---@param items table[]
---@param options? mortise.client.bulk_options
function module.bulk(index, items, options) end

--- makes an index, of {settings=, mappings=}
---@param index string
---@param body? any
function client:create_index(index, body) end

--- makes an index, of {settings=, mappings=}
---@param index string
---@param body? any
function module.create_index(index, body) end

--- removes an index and its documents
---@param index string
function client:drop_index(index) end

--- removes an index and its documents
---@param index string
function module.drop_index(index) end

--- is the index there, and what would writing whole documents lose?
---@param index string
function client:describe(index) end

--- is the index there, and what would writing whole documents lose?
---@param index string
function module.describe(index) end

--- any request: its HTTP status and answer
---@param method string
---@param path string|string[]
---@param body? any
---@param content_type? string
function client:raw(method, path, body, content_type) end

--- any request: its HTTP status and answer
---@param method string
---@param path string|string[]
---@param body? any
---@param content_type? string
function module.raw(method, path, body, content_type) end

--- renames a tree of documents, under its locks
---@param options mortise.client.rename_options
function client:rename(options) end

--- renames a tree of documents, under its locks
---@param options mortise.client.rename_options
function module.rename(options) end

--- a job: a change that outlives its process
---@param options mortise.client.job_options
function client:job(options) end

--- a job: a change that outlives its process
---@param options mortise.client.job_options
function module.job(options) end

--- a migration: a job that copies an index, in use, into a new one
---@param options mortise.client.migrate_options
function client:migrate(options) end

--- a migration: a job that copies an index, in use, into a new one
---@param options mortise.client.migrate_options
function module.migrate(options) end

--- the job of this id, to resume it or roll it back
---@param id string
---@param options? mortise.client.get_job_options
function client:get_job(id, options) end

--- the job of this id, to resume it or roll it back
---@param id string
---@param options? mortise.client.get_job_options
function module.get_job(id, options) end

--- a list of all jobs: {job, state, stands, counts, ...}
function client:jobs() end

--- a list of all jobs: {job, state, stands, counts, ...}
function module.jobs() end

--- fn(lock) with the paths and all below locked
---@param path string|string[]
---@param options? mortise.client.with_tree_lock_options
---@param fn function
function client:with_tree_lock(path, options, fn) end

--- fn(lock) with the paths and all below locked
---@param path string|string[]
---@param options? mortise.client.with_tree_lock_options
---@param fn function
function module.with_tree_lock(path, options, fn) end

--- fn(lock) with documents locked
---@param index string
---@param ids string[]|table
---@param options? mortise.client.with_document_locks_options
---@param fn function
function client:with_document_locks(index, ids, options, fn) end

--- fn(lock) with documents locked
---@param index string
---@param ids string[]|table
---@param options? mortise.client.with_document_locks_options
---@param fn function
function module.with_document_locks(index, ids, options, fn) end

--- fn(lock) with a name of your own locked
---@param category string
---@param name string
---@param options? mortise.client.with_lock_options
---@param fn function
function client:with_lock(category, name, options, fn) end

--- fn(lock) with a name of your own locked
---@param category string
---@param name string
---@param options? mortise.client.with_lock_options
---@param fn function
function module.with_lock(category, name, options, fn) end

--- fn(lock) with everything in the namespace locked
---@param options? mortise.client.with_global_lock_options
---@param fn function
function client:with_global_lock(options, fn) end

--- fn(lock) with everything in the namespace locked
---@param options? mortise.client.with_global_lock_options
---@param fn function
function module.with_global_lock(options, fn) end

--- a lock, or an error raised
---@param options mortise.client.acquire_options
function client:acquire(options) end

--- a lock, or an error raised
---@param options mortise.client.acquire_options
function module.acquire(options) end

--- a lock, or nil and the error
---@param options mortise.client.try_lock_options
function client:try_lock(options) end

--- a lock, or nil and the error
---@param options mortise.client.try_lock_options
function module.try_lock(options) end

--- who holds and who waits for what: {locks, sessions}
---@param every_namespace? any
function client:list(every_namespace) end

--- who holds and who waits for what: {locks, sessions}
---@param every_namespace? any
function module.list(every_namespace) end

--- the session of its locks; nil before the first
function client:session() end

--- the session of its locks; nil before the first
function module.session() end

--- the namespace of its locks
function client:namespace() end

--- the namespace of its locks
function module.namespace() end

--- how many requests, bytes, waits there were
function client:stats() end

--- how many requests, bytes, waits there were
function module.stats() end

--- makes the lock tables, or says how
---@param options? mortise.client.init_options
function client:init(options) end

--- makes the lock tables, or says how
---@param options? mortise.client.init_options
function module.init(options) end

--- checks the lock tables
function client:verify() end

--- checks the lock tables
function module.verify() end

--- the store's URL
function client:url() end

--- the store's URL
function module.url() end

--- finishes writers, gives back every lock; again is fine
function client:close() end

--- finishes writers, gives back every lock; again is fine
function module.close() end

--- a lock
---@class mortise.lock
---@field fence any # larger than that of every earlier holder
---@field epoch any # of the lock table, within which that is so
---@field paths any # what it was asked for
---@field modes any # the mode of each path: X, S, SIX
---@field mode any # exclusive, shared or SIX
---@field ids any # the ids of a document lock
local lock = {}

--- raises lock_lost unless it is held for sure
function lock:check() end

--- seconds that it would last if the store fell silent
function lock:remaining() end

--- finishes its writers, gives it back; again is fine
function lock:release() end

--- to a stronger mode, without letting go
---@param options? mortise.lock.upgrade_options
function lock:upgrade(options) end

--- to a weaker mode, without letting go
---@param options? mortise.lock.downgrade_options
function lock:downgrade(options) end

--- is the path, with all below it, locked exclusively?
---@param path string|string[]
function lock:covers(path) end

--- a writer that writes nothing past the lock's deadline
---@param index string
---@param options? mortise.lock.bulk_options
function lock:bulk(index, options) end

--- every document that matches, those written a moment ago too
---@param index string
---@param options? mortise.lock.scan_options
function lock:scan(index, options) end

--- a job, from mortise.job or mortise.get_job
---@class mortise.job
---@field id any # its id
---@field name any # what it was named
local job = {}

--- what it would change; takes no lock, writes nothing
function job:plan() end

--- takes its lock and does it; the result
function job:run() end

--- does what is left of one that was cut off
function job:resume() end

--- undoes what it has done
---@param options mortise.job.rollback_options
function job:rollback(options) end

--- what that would do; takes no lock, writes nothing
function job:plan_rollback() end

--- ends one as it is that stands because of what it has set aside
function job:accept() end

--- for `for`: each document that was refused, {id=, index=, type=, reason=}
function job:rejected() end

--- for `for`: each document that others had changed each time
function job:conflicts() end

--- its record; nil before its first run
function job:status() end

--- whoever is at work on it sends nothing more, until it goes on
function job:pause() end

--- it is paused no longer
function job:go_on() end

--- how fast whoever is at work on it may go
---@param options mortise.job.throttle_options
function job:throttle(options) end

--- whoever is at work on it ends: it stands half-done
function job:cancel() end

--- a migration, from mortise.migrate or mortise.get_job
---@class mortise.migration
---@field id any # its id
---@field name any # what it was named
local migration = {}

--- what it would do, and what keeps it from that; takes no lock, writes nothing
function migration:plan() end

--- copies, follows, and cuts over; the result
function migration:run() end

--- goes on with one that was cut off
function migration:resume() end

--- whoever is at work on one that waits for that is told to cut over
function migration:cutover() end

--- ends one that has been cut over: there is no way back from there
---@param options mortise.migration.finish_options
function migration:finish(options) end

--- the alias names the old index again, and the new one is gone
---@param options table
function migration:rollback(options) end

--- what that would do; takes no lock, writes nothing
function migration:plan_rollback() end

--- for `for`: each document that was refused, {id=, index=, type=, reason=}
function migration:rejected() end

--- its record; nil before its first run
function migration:status() end

--- whoever is at work on it copies nothing more, until it goes on
function migration:pause() end

--- it is paused no longer
function migration:go_on() end

--- how fast whoever is at work on it may copy
---@param options table
function migration:throttle(options) end

--- whoever is at work on it ends: it stands half-done
function migration:cancel() end

--- a writer, from lock:bulk
---@class mortise.writer
local writer = {}

--- writes a changed document, if nobody else has changed it
---@param view any
function writer:save(view) end

--- writes a document, whatever is there
---@param id string
---@param source any
function writer:index(id, source) end

--- writes a document that is not there
---@param id string
---@param source any
function writer:create(id, source) end

--- removes a document
---@param id string
function writer:delete(id) end

--- an item as of client:bulk
---@param item any
function writer:add(item) end

--- sends what was gathered
function writer:flush() end

--- what has become of the items so far
function writer:report() end

--- sends the rest and ends; the report
---@param options? mortise.writer.finish_options
function writer:finish(options) end

--- drops what was not sent
function writer:close() end

--- a scan
---@class mortise.scan
---@field total any # how many documents will come
local scan = {}

--- the next document; nil at the end
function scan:next() end

--- a list of documents; nil at the end
function scan:next_page() end

--- ends it; again is fine
function scan:close() end

--- a task, from mortise.spawn
---@class mortise.task
---@field id any # its number
local task = {}

--- waits for it: what its function returned, or its error raised
function task:join() end

--- raises interrupted where it waits
function task:cancel() end

--- has it ended?
function task:done() end

--- a document that was read: its fields, and
---@class mortise.document
---@field _id any # its id, also as id
---@field _index any # its index
---@field _routing any # its routing
---@field _seq_no any # its version
---@field _term any # the version's primary term
local document = {}

--- its JSON text, changes made
function document:_source() end

--- all of it as tables
function document:_table() end

--- does an assignment make it differ?
function document:_changed() end

--- the changed fields: their JSON text, or false
function document:_changes() end

--- a field of any name
---@param name string
function document:_get(name) end

--- assigns a field of any name
---@param name string
---@param value any
function document:_set(name, value) end

return module
