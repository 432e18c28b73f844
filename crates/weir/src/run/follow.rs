//! The writers of packets after a change of the plan.

use super::Request;
use super::packet_files::PacketWriters;
use super::target_files::Directory;
use crate::carve::{Carving, Limits};
use crate::dump::index::DumpIndex;
use crate::dump::{Dump, FileSpec, Has};
use crate::routes::{DirectoryRoute, LEVELS, LogRoutes};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use weir_api::AnswerId;
use weir_engine::{NamedDirectory, NamedFile, Of, Place, Plan, Target};

impl PacketWriters<'_> {
    /// Follows a plan, whose files are in the directory of a request's logs. Files that both plans have go on. Returns whether
    /// there are other destinations now.
    ///
    /// # Errors
    /// A writer cannot be started, or a directory cannot be created. The files of the plan before go on.
    pub fn follow(&mut self, plan: &Plan, request: &Request) -> Result<bool, String> {
        let directory = request.logs.as_ref().map(|(directory, _)| directory.clone());
        let before = self.targets.files.clone();
        let goes_on = directory == self.targets.directory;
        let known = |target: &Target, all: &[(Target, Arc<FileSpec>)]| {
            all.iter().find(|(one, _)| one == target).map(|(_, file)| Arc::clone(file))
        };
        let mut files: Vec<(Target, Arc<FileSpec>)> = Vec::new();
        let mut maps: [HashMap<AnswerId, Arc<FileSpec>>; 2] = Default::default();
        for (id, target) in plan.targets() {
            let Target::Packets { file, of: late } = target else { continue };
            let stays = goes_on || file.place == Place::Path;
            let open = || self.file_of(plan, target, file, directory.as_deref()).map(Arc::new);
            let file = known(target, &files).or_else(|| known(target, &before).filter(|_| stays));
            let Some(file) = file.or_else(open) else { continue };
            if let Some(map) = maps.get_mut(usize::from(late.is_some())) {
                map.insert(id, Arc::clone(&file));
            }
            if known(target, &files).is_none() {
                files.push((target.clone(), file));
            }
        }
        self.start_writers(&maps)?;
        let had_directories = !self.targets.directories.is_empty();
        self.follow_directories(plan, directory.as_deref(), goes_on)?;
        let is_log = |target: &Target| matches!(target, Target::Log(_) | Target::OfRun(_) | Target::Rows(_));
        let logs = plan.targets().filter(|(_, target)| is_log(target));
        let logs = LogRoutes::new(logs.map(|(id, target)| (id, self.run.counts_of(target))));
        let mut has_changed = !(logs.is_empty() && self.targets.logs.is_empty())
            || had_directories
            || !self.targets.directories.is_empty();
        self.targets.logs = logs;
        let routes = maps.into_iter().zip(&mut self.targets.packets).zip(&self.targets.writers);
        for ((map, outlet), writer) in
            routes.filter(|((map, outlet), _)| !(map.is_empty() && outlet.files.is_empty()))
        {
            if let Some(writer) = writer.as_ref().filter(|_| outlet.intake.is_some()) {
                let is_new = |file: &&Arc<FileSpec>| before.iter().all(|(_, one)| one.number != file.number);
                let new = map.values().filter(is_new).filter(|file| file.opens_early());
                new.for_each(|file| writer.open(Arc::clone(file)));
            }
            outlet.intake = writer.as_ref().map(Dump::intake);
            outlet.files = Arc::new(map);
            has_changed = true;
        }
        self.targets.files = files;
        self.targets.directory = directory;
        Ok(has_changed)
    }

    /// Starts the writers that are missing, with the files of functions at each level.
    fn start_writers(&mut self, maps: &[HashMap<AnswerId, Arc<FileSpec>>; 2]) -> Result<(), String> {
        for ((map, writer), level) in maps.iter().zip(&mut self.targets.writers).zip(LEVELS) {
            if writer.is_some() || map.is_empty() {
                continue;
            }
            let mut files: Vec<Arc<FileSpec>> = map.values().map(Arc::clone).collect();
            files.sort_by_key(|file| file.number);
            files.dedup_by_key(|file| file.number);
            let level = (level, files.len());
            files.retain(|file| file.opens_early());
            let started = self.run.start_writer(&files, level, &self.interfaces, self.purpose);
            *writer = Some(started.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// The file of a target of a plan; `directory` is that of logs. `None` for a file in it if there is no such directory.
    fn file_of(
        &self,
        plan: &Plan,
        target: &Target,
        file: &NamedFile,
        directory: Option<&Path>,
    ) -> Option<FileSpec> {
        let file = self.run.file_of(target, file, directory)?;
        Some(match target {
            Target::Packets { of: Some(Of::Unidentified), .. } => {
                file.having(Has::Unidentified, DumpIndex::default())
            }
            // One function among those that share the file suffices.
            _ if plan.targets().any(|(id, other)| other == target && plan.writes_all(&id)) => {
                file.having(Has::Matching, self.dump_index.clone())
            }
            _ => file,
        })
    }

    /// Follows the directories of files of a plan.
    ///
    /// # Errors
    /// The directory of all files cannot be created.
    fn follow_directories(
        &mut self,
        plan: &Plan,
        directory: Option<&Path>,
        goes_on: bool,
    ) -> Result<(), String> {
        let mut functions: Vec<(&Target, Vec<AnswerId>)> = Vec::new();
        for (id, target) in plan.targets().filter(|(_, target)| matches!(target, Target::Files(_))) {
            match functions.iter_mut().find(|(one, _)| *one == target) {
                Some((_, ids)) => ids.push(id),
                None => functions.push((target, vec![id])),
            }
        }
        // What can fail comes first, so that an error changes nothing.
        let mut next = Vec::new();
        for (target, functions) in functions {
            let Target::Files(named) = target else { continue };
            let path = match (named.place, directory) {
                (Place::Path, _) => Path::new(&*named.name).to_owned(),
                (Place::Logs, Some(directory)) => directory.join(&*named.name),
                (Place::Logs, None) => continue,
            };
            let stays = goes_on || named.place == Place::Path;
            let is_whole = functions.iter().any(|id| plan.writes_all(id));
            let is_it = |one: &Directory| one.target == *target && one.carving.is_whole() == is_whole;
            let new = if stays && self.targets.directories.iter().any(is_it) {
                None
            } else {
                let NamedDirectory { each, files, total, .. } = named;
                let limits = Limits { each: *each, files: *files, total: *total };
                let (failures, delivered) = (self.run.failures.clone(), self.run.counts_of(target));
                let started = Carving::start(&path, limits, is_whole, failures, delivered);
                Some(started.map_err(|error| error.to_string())?)
            };
            next.push((target, functions, is_whole, new));
        }
        let mut before = std::mem::take(&mut self.targets.directories);
        for (target, functions, is_whole, new) in next {
            let is_it = |one: &Directory| one.target == *target && one.carving.is_whole() == is_whole;
            let mut known = || Some(before.swap_remove(before.iter().position(is_it)?).carving);
            let Some(carving) = new.or_else(&mut known) else { continue };
            let (target, functions) = (target.clone(), functions.into());
            self.targets.directories.push(Directory { target, functions, carving });
        }
        self.targets.ended.extend(before.into_iter().map(Directory::end));
        Ok(())
    }

    /// The directories of files of functions, for the workers.
    pub fn directories(&self) -> Vec<DirectoryRoute> {
        let route = |directory: &Directory| DirectoryRoute {
            functions: Arc::clone(&directory.functions),
            carver: self.carver(&directory.carving),
        };
        self.targets.directories.iter().map(route).collect()
    }
}
